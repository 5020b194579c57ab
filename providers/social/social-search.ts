import { ServiceError } from '../../core/errors.ts'
import type { SocialSearch } from './social-port.ts'
import type { SocialPlatformSearchResult, SocialPlatform } from './social-platform.ts'

/** A platform that is not queried, and what it needs. */
export interface UnavailableSocialPlatform {
  readonly name: string
  readonly reason: string
}

/** Platforms that need an account, which this station does not have. */
export const UNCONNECTED_SOCIAL_PLATFORMS: readonly UnavailableSocialPlatform[] = [
  'reddit',
  'farcaster',
  'x',
].map((name) => ({
  name,
  reason: 'not_connected',
}))

export function createSocialSearch(
  platforms: readonly SocialPlatform[],
  unavailable: readonly UnavailableSocialPlatform[] = UNCONNECTED_SOCIAL_PLATFORMS,
): SocialSearch {
  return {
    platforms: platforms.map(({ name }) => name),
    async search(wanted, signal, onStatus) {
      const outcomes = await Promise.all(
        platforms.map(async ({ name, search }) => {
          try {
            const found = await search(wanted, signal)
            onStatus?.({ platform: name, outcome: `${found.posts.length} posts` })
            return { name, found, reason: '' }
          } catch (error) {
            if (signal.aborted || !(error instanceof ServiceError)) throw error
            const reason = failureReason(error)
            onStatus?.({ platform: name, outcome: reason })
            return { name, found: null, reason }
          }
        }),
      )
      const silent = outcomes.filter(({ found }) => found === null)
      const answers = outcomes.flatMap(({ found }): SocialPlatformSearchResult[] =>
        found === null ? [] : [found],
      )
      return {
        posts: answers
          .flatMap(({ posts }) => posts.slice(0, wanted.limit))
          .sort((a, b) => (a.at < b.at ? 1 : -1)),
        checked: outcomes.filter(({ found }) => found !== null).map(({ name }) => name),
        skipped: [...silent.map(({ name, reason }) => ({ name, reason })), ...unavailable],
        mode: answers.some(({ mode }) => mode === 'fixture') ? 'fixture' : 'live',
      }
    },
  }
}

/** A status code that means that the instance requires a login is named as such. */
function failureReason({ code, details }: ServiceError): string {
  const status = details['upstream_status']
  return typeof status === 'number' ? `${code}: status ${status}` : code
}
