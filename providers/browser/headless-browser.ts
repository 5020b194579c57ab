import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { createFairSemaphore } from '../../core/concurrency/fair-semaphore.ts'
import type { EgressPrivateIpAllowlist } from '../egress/public-ip-address.ts'
import { parseFetchableUrl } from '../egress/guarded-egress-client.ts'
import { startGuardedProxy, type GuardedProxy } from '../egress/guarded-browser-proxy.ts'
import { createDnsResolver, type DnsAddressResolver } from '../egress/dns-resolver.ts'
import {
  createChromiumManager,
  type ChromiumInstance,
  type ChromiumManagerDeps,
} from './chromium-manager.ts'
import { browserBusyError } from './spawn-browser-host-child-process.ts'
import type {
  HeadlessBrowser,
  RenderPageRequest,
  BrowserSession,
  BrowserSessionRequest,
} from './browser-port.ts'
import { createBrowserSession } from './browser-session.ts'

/** Renders untrusted pages, each in its own context behind its own proxy. */

export interface HeadlessBrowserDeps extends ChromiumManagerDeps {
  readonly allow: EgressPrivateIpAllowlist
  readonly resolve?: DnsAddressResolver
  /** Concurrent pages. */
  readonly maxPages?: number
}

const DEFAULT_CONCURRENT_PAGES = 3
/** Limits of the queue: in total, and per owner. */
const MAX_WAITING = 64
const MAX_WAITING_PER_OWNER = 8
/** Together with a visit it fits the deadlines of the tools. */
const PAGE_QUEUE_TIMEOUT_MS = 18 * SECOND
const RENDER_TIMEOUT_MS = 20 * SECOND
const SESSION_CLOSE_TIMEOUT_MS = 3 * SECOND
/** Bytes that one session may load and send. */
const MAX_SESSION_BYTES = 64 * 1024 * 1024

/** Creates the browser of this node: one Chromium, with a context and a proxy per page. */
export function createHeadlessBrowser(deps: HeadlessBrowserDeps) {
  const { allow, resolve = createDnsResolver() } = deps
  const width = deps.maxPages ?? DEFAULT_CONCURRENT_PAGES
  const slots = createFairSemaphore(width, {
    clock: deps.clock,
    maxWaiting: MAX_WAITING,
    maxWaitingPerOwner: MAX_WAITING_PER_OWNER,
    createRejection: () => browserBusyError(),
  })
  const engines = createChromiumManager(deps)
  let ids = 0

  async function open({ owner, signal }: BrowserSessionRequest): Promise<BrowserSession> {
    return openAt(await slots.acquire(owner, { signal, timeoutMs: PAGE_QUEUE_TIMEOUT_MS }), signal)
  }

  /** Opens a session in a slot; closing the session releases it. */
  async function openAt(leave: () => void, signal: AbortSignal): Promise<BrowserSession> {
    let engine: ChromiumInstance | null = null
    let proxy: GuardedProxy
    try {
      engine = await takeEngine(signal)
      proxy = await startGuardedProxy({ allow, resolve, maxBytes: MAX_SESSION_BYTES })
    } catch (error) {
      if (engine !== null) engines.release(engine)
      leave()
      throw error
    }
    return begin(engine, proxy, leave, signal)
  }

  /** An abort does not wait for a Chromium that is still starting. */
  async function takeEngine(signal: AbortSignal): Promise<ChromiumInstance> {
    const taking = engines.acquire()
    let abort = () => {}
    const aborted = new Promise<never>((_, reject) => {
      abort = () => reject(signal.reason as Error)
      signal.addEventListener('abort', abort, { once: true })
      if (signal.aborted) abort()
    })
    try {
      return await Promise.race([taking, aborted])
    } catch (error) {
      if (signal.aborted) void taking.then(engines.release, () => {})
      throw error
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  async function begin(
    engine: ChromiumInstance,
    proxy: GuardedProxy,
    leave: () => void,
    signal: AbortSignal,
  ) {
    const [{ host }, session] = [engine, (ids += 1)]
    let ending: Promise<void> | null = null
    const close = () => (ending ??= end())
    const abort = () => void close()

    async function end(): Promise<void> {
      signal.removeEventListener('abort', abort)
      // A page that blocks its Chromium is killed with it.
      const late = setTimeout(() => host.kill(), SESSION_CLOSE_TIMEOUT_MS)
      try {
        await host.request({ op: 'close', session }).catch(() => {})
        host.onSideEffect(session, null)
        await proxy.close()
      } catch (error) {
        deps.log('a proxy of the browser did not close', error)
      } finally {
        clearTimeout(late)
        engines.release(engine)
        leave()
      }
    }

    signal.addEventListener('abort', abort, { once: true })
    try {
      signal.throwIfAborted()
      await host.request({ op: 'open', session, proxy: proxy.url })
      signal.throwIfAborted()
    } catch (error) {
      await close()
      if (signal.aborted) throw signal.reason
      throw error instanceof ServiceError ? error : browserBusyError('No page could be opened.')
    }
    const check = (url: string) => void parseFetchableUrl(url, allow)
    return createBrowserSession({ host, session, proxy, check, signal, close })
  }

  async function render({
    url,
    owner,
    timeoutMs = RENDER_TIMEOUT_MS,
    signal: given,
  }: RenderPageRequest) {
    parseFetchableUrl(url, allow)
    // The time limit of a visit starts when it has a slot.
    const leave = await slots.acquire(owner, { signal: given, timeoutMs: PAGE_QUEUE_TIMEOUT_MS })
    const timeout = AbortSignal.timeout(timeoutMs)
    const signal = AbortSignal.any([given, timeout])
    try {
      const session = await openAt(leave, signal)
      try {
        await session.goto(url)
        return await session.page()
      } finally {
        await session.close()
      }
    } catch (error) {
      if (given.aborted) throw given.reason
      const host = new URL(url).hostname
      throw timeout.aborted ? new ServiceError('upstream_timeout', { host }, error) : error
    }
  }

  return {
    browser: {
      isAvailable: engines.isAvailable,
      openSession: open,
      render,
    } satisfies HeadlessBrowser,
    async close(): Promise<void> {
      slots.close()
      await engines.close()
    },
  }
}
