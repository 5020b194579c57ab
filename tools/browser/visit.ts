import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../core/errors.ts'
import type { GuardedProxy } from '../egress/proxy.ts'
import { HostFault, type Host } from './host.ts'
import type { Ask, Fault, PageSaid } from './host/wire.ts'
import type { BrowserSession } from './port.ts'

/** Of a document, in characters. */
const MOST_HTML = 2 * 1024 * 1024

export interface VisitParts {
  readonly host: Host
  readonly session: number
  readonly proxy: GuardedProxy
  /** Refuses an address by its spelling. */
  readonly check: (url: string) => void
  readonly signal: AbortSignal
  readonly close: () => Promise<void>
}

type Wish = Ask extends infer One ? (One extends Ask ? Omit<One, 'session'> : never) : never

/** A session of a host, with what its proxy knows put into its failures. */
export function visit({ host, session, proxy, check, signal, close }: VisitParts): BrowserSession {
  /** What another address may be relative to. */
  let at: string | undefined

  async function ask(wish: Wish, before?: () => void) {
    signal.throwIfAborted()
    try {
      return await host.ask({ ...wish, session } as Ask, before)
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw error instanceof HostFault ? explain(error.fault) : error
    }
  }

  function explain({ kind, detail, url }: Fault): ServiceError {
    const failed = url !== undefined && URL.canParse(url) ? new URL(url) : null
    const told = failed === null ? null : proxy.failureOf(failed.hostname)
    if (told !== null) return new ServiceError(told.code, { ...told.details }, told)
    const host = failed === null ? {} : { host: failed.hostname }
    // Chromium has ports of its own that it asks nobody at.
    if (detail.includes('ERR_UNSAFE_PORT'))
      return new ServiceError('blocked_url', { ...host, reason: 'port' })
    if (kind === 'timeout') return new ServiceError('upstream_timeout', { ...host, detail })
    if (kind === 'network') return new ServiceError('upstream_error', { ...host, reason: detail })
    return new ServiceError('step_failed', { detail })
  }

  const done = async (wish: Wish, before?: () => void): Promise<void> =>
    void (await ask(wish, before))

  return {
    async goto(text) {
      const url = URL.canParse(text, at) ? new URL(text, at).href : text
      check(url)
      await done({ op: 'goto', url })
    },
    onSent(told) {
      host.onSent(session, () => {
        try {
          told()
        } catch {
          // Its call is over already.
        }
      })
    },
    fill: (name, value) => done({ op: 'fill', name, value }),
    select: (name, value) => done({ op: 'select', name, value }),
    check: (name) => done({ op: 'check', name }),
    click: (name, before) => done({ op: 'click', name }, before),
    submit: (name, before) => done({ op: 'submit', name }, before),
    wait: async (ms) => {
      await sleep(ms, undefined, { signal }).catch(() => {})
      signal.throwIfAborted()
    },
    async page() {
      const page = (await ask({ op: 'page', maxLength: MOST_HTML })) as PageSaid
      at = page.url
      return page
    },
    close,
  }
}
