import type { Clock } from '../core/clock.ts'
import type { Hive } from '../tools/ports.ts'
import { searchAdapters } from '../tools/search/adapters.ts'
import type { Search } from '../tools/search/port.ts'
import { createSearch } from '../tools/search/search.ts'
import { socialPlatforms } from '../tools/social/platforms.ts'
import type { Social } from '../tools/social/port.ts'
import { createSocial, NOT_CONNECTED } from '../tools/social/social.ts'
import type { Upstream } from '../tools/upstream/client.ts'
import type { Config } from './config.ts'

export interface SearchParts {
  readonly config: Pick<Config, 'search' | 'social'>
  readonly upstream: Upstream
  readonly hive: Pick<Hive, 'search'>
  readonly clock: Clock
  readonly publicUrl: string
}

/** Searches of the web and of what people say in public. */
export function composeSearch({ config, upstream, hive, clock, publicUrl }: SearchParts): {
  search: Search
  social: Social
} {
  const { search, social } = config
  const adapters = searchAdapters(upstream, {
    ...search,
    braveKey: search.braveKey?.reveal() ?? null,
    tavilyKey: search.tavilyKey?.reveal() ?? null,
  })
  const { blueskyIdentifier: identifier, blueskyPassword } = social
  const blueskyLogin =
    identifier === null || blueskyPassword === null
      ? null
      : { identifier, password: blueskyPassword.reveal() }
  const bases = { hackernews: search.hackernews, ...social, blueskyLogin }
  const withoutLogin = { name: 'bluesky', reason: 'no_login' }
  return {
    search: createSearch({ adapters, hive, clock, publicUrl }),
    social: createSocial(
      socialPlatforms(upstream, bases),
      blueskyLogin === null ? [withoutLogin, ...NOT_CONNECTED] : NOT_CONNECTED,
    ),
  }
}
