import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../core/errors.ts'
import type { GuardedProxy } from '../egress/guarded-browser-proxy.ts'
import {
  BrowserPageActionError,
  type BrowserHostProcess,
} from './spawn-browser-host-child-process.ts'
import type {
  BrowserHostRequest,
  PageFailure,
  RenderedPageHtmlAndStatus,
} from './host/browser-host-protocol.ts'
import type { BrowserSession } from './browser-port.ts'

/** Sessions of the browser host, with its failures mapped to service errors. */

/** Characters of a document. */
const MAX_RENDERED_HTML_CHARS = 2 * 1024 * 1024

export interface BrowserSessionDeps {
  readonly host: BrowserHostProcess
  readonly session: number
  readonly proxy: GuardedProxy
  /** Throws for an address that its spelling forbids. */
  readonly check: (url: string) => void
  readonly signal: AbortSignal
  readonly close: () => Promise<void>
}

type SessionHostRequest = BrowserHostRequest extends infer One
  ? One extends BrowserHostRequest
    ? Omit<One, 'session'>
    : never
  : never

/** Opens a session of a host, and adds the proxy's refusals to its failures. */
export function createBrowserSession({
  host,
  session,
  proxy,
  check,
  signal,
  close,
}: BrowserSessionDeps): BrowserSession {
  /** Base of relative addresses. */
  let at: string | undefined

  async function ask(wish: SessionHostRequest, before?: () => void) {
    signal.throwIfAborted()
    try {
      return await host.request({ ...wish, session } as BrowserHostRequest, before)
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw error instanceof BrowserPageActionError ? explain(error.fault) : error
    }
  }

  function explain({ kind, detail, url }: PageFailure): ServiceError {
    const failed = url !== undefined && URL.canParse(url) ? new URL(url) : null
    const refusal = failed === null ? null : proxy.failureOf(failed.hostname)
    if (refusal !== null) return new ServiceError(refusal.code, { ...refusal.details }, refusal)
    const host = failed === null ? {} : { host: failed.hostname }
    // Chromium refuses some ports itself, without asking the proxy.
    if (detail.includes('ERR_UNSAFE_PORT'))
      return new ServiceError('blocked_url', { ...host, reason: 'port' })
    if (kind === 'timeout') return new ServiceError('upstream_timeout', { ...host, detail })
    if (kind === 'network') return new ServiceError('upstream_error', { ...host, reason: detail })
    return new ServiceError('step_failed', { detail })
  }

  const done = async (wish: SessionHostRequest, before?: () => void): Promise<void> =>
    void (await ask(wish, before))

  return {
    async goto(text) {
      const url = URL.canParse(text, at) ? new URL(text, at).href : text
      check(url)
      await done({ op: 'goto', url })
    },
    onSideEffect(refusal) {
      host.onSideEffect(session, () => {
        try {
          refusal()
        } catch {
          // The call has ended already.
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
      const page = (await ask({
        op: 'page',
        maxLength: MAX_RENDERED_HTML_CHARS,
      })) as RenderedPageHtmlAndStatus
      at = page.url
      return page
    },
    close,
  }
}
