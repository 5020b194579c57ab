import type { Clock } from '../../core/clock.ts'
import type { HiveReader } from '../../providers/hive/hive-port.ts'
import { createSearchAdapters } from '../../providers/search/select-search-engines.ts'
import type { WebSearchClient } from '../../providers/search/web-search-port.ts'
import { createWebSearchClient } from '../../providers/search/web-search-client.ts'
import { createSocialPlatforms } from '../../providers/social/select-social-platforms.ts'
import type { SocialSearch } from '../../providers/social/social-port.ts'
import {
  createSocialSearch,
  UNCONNECTED_SOCIAL_PLATFORMS,
} from '../../providers/social/social-search.ts'
import type { UpstreamClient } from '../../providers/upstream/upstream-client.ts'
import type { Config } from '../config.ts'

/** Composes web search and social search. */

export interface ComposeSearchDeps {
  readonly config: Pick<Config, 'search' | 'social'>
  readonly upstream: UpstreamClient
  readonly hive: Pick<HiveReader, 'search'>
  readonly clock: Clock
  readonly publicUrl: string
}

/** Creates the search clients. */
export function composeSearch({ config, upstream, hive, clock, publicUrl }: ComposeSearchDeps): {
  search: WebSearchClient
  social: SocialSearch
} {
  const { search, social } = config
  const adapters = createSearchAdapters(upstream, {
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
    search: createWebSearchClient({ adapters, hive, clock, publicUrl }),
    social: createSocialSearch(
      createSocialPlatforms(upstream, bases),
      blueskyLogin === null
        ? [withoutLogin, ...UNCONNECTED_SOCIAL_PLATFORMS]
        : UNCONNECTED_SOCIAL_PLATFORMS,
    ),
  }
}
