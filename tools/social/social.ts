import { ServiceError } from '../../core/errors.ts'
import type { Social } from './port.ts'
import type { Heard, Platform } from './post.ts'

/** A platform that is not asked, and what it would need. */
export interface Unasked {
  readonly name: string
  readonly reason: string
}

/** Those nobody can ask without an account, and none is connected here. */
export const NOT_CONNECTED: readonly Unasked[] = ['reddit', 'farcaster', 'x'].map((name) => ({
  name,
  reason: 'not_connected',
}))

export function createSocial(
  platforms: readonly Platform[],
  unasked: readonly Unasked[] = NOT_CONNECTED,
): Social {
  return {
    platforms: platforms.map(({ name }) => name),
    async ask(wanted, signal, told) {
      const heard = await Promise.all(
        platforms.map(async ({ name, ask }) => {
          try {
            const said = await ask(wanted, signal)
            told?.({ platform: name, outcome: `${said.posts.length} posts` })
            return { name, said, reason: '' }
          } catch (error) {
            if (signal.aborted || !(error instanceof ServiceError)) throw error
            const reason = reasonOf(error)
            told?.({ platform: name, outcome: reason })
            return { name, said: null, reason }
          }
        }),
      )
      const silent = heard.filter(({ said }) => said === null)
      const answers = heard.flatMap(({ said }): Heard[] => (said === null ? [] : [said]))
      return {
        posts: answers
          .flatMap(({ posts }) => posts.slice(0, wanted.limit))
          .sort((a, b) => (a.at < b.at ? 1 : -1)),
        checked: heard.filter(({ said }) => said !== null).map(({ name }) => name),
        skipped: [...silent.map(({ name, reason }) => ({ name, reason })), ...unasked],
        mode: answers.some(({ mode }) => mode === 'fixture') ? 'fixture' : 'live',
      }
    },
  }
}

/** An instance that wants a login says so by its status. */
function reasonOf({ code, details }: ServiceError): string {
  const status = details['upstream_status']
  return typeof status === 'number' ? `${code}: status ${status}` : code
}
