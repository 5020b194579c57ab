import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { createFairPlaces } from '../../core/fair-places.ts'
import type { Allow } from '../egress/address.ts'
import { checkUrl } from '../egress/guard.ts'
import { guardedProxy, type GuardedProxy } from '../egress/proxy.ts'
import { dnsResolver, type ResolveAll } from '../egress/resolver.ts'
import { createEngines, type Engine, type EngineParts } from './engines.ts'
import { busy } from './host.ts'
import type { Browser, BrowserRequest, BrowserSession, Visitor } from './port.ts'
import { visit } from './visit.ts'

export interface BrowserParts extends EngineParts {
  readonly allow: Allow
  readonly resolve?: ResolveAll
  /** Pages at a time. */
  readonly places?: number
}

const PLACES = 3
/** Visits that wait for a place: of all owners, and of one. */
const MAX_WAITING = 64
const MAX_WAITING_PER_OWNER = 8
/** With a visit itself it is within the deadlines of the tools. */
const PATIENCE_MS = 18 * SECOND
const RENDER_MS = 20 * SECOND
const CLOSE_MS = 3 * SECOND
/** Of what one session loads and sends. */
const MOST_BYTES = 64 * 1024 * 1024

/** One Chromium for this node, every page of it in a context and behind a proxy of its own. */
export function createBrowser(parts: BrowserParts) {
  const { allow, resolve = dnsResolver() } = parts
  const width = parts.places ?? PLACES
  const places = createFairPlaces(width, {
    clock: parts.clock,
    maxWaiting: MAX_WAITING,
    maxWaitingPerOwner: MAX_WAITING_PER_OWNER,
    // However long its pages take, an owner leaves a place to others.
    maxHeldPerOwner: Math.max(1, width - 1),
    refusal: () => busy(),
  })
  const engines = createEngines(parts)
  let ids = 0

  async function open({ owner, signal }: Visitor): Promise<BrowserSession> {
    return openAt(await places.enter(owner, { signal, patienceMs: PATIENCE_MS }), signal)
  }

  /** At a place of its own, which the session gives back. */
  async function openAt(leave: () => void, signal: AbortSignal): Promise<BrowserSession> {
    let engine: Engine | null = null
    let proxy: GuardedProxy
    try {
      engine = await takeEngine(signal)
      proxy = await guardedProxy({ allow, resolve, maxBytes: MOST_BYTES })
    } catch (error) {
      if (engine !== null) engines.leave(engine)
      leave()
      throw error
    }
    return begin(engine, proxy, leave, signal)
  }

  /** Nobody is held up by a Chromium that is still starting. */
  async function takeEngine(signal: AbortSignal): Promise<Engine> {
    const taking = engines.take()
    let abort = () => {}
    const aborted = new Promise<never>((_, reject) => {
      abort = () => reject(signal.reason as Error)
      signal.addEventListener('abort', abort, { once: true })
      if (signal.aborted) abort()
    })
    try {
      return await Promise.race([taking, aborted])
    } catch (error) {
      if (signal.aborted) void taking.then(engines.leave, () => {})
      throw error
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  async function begin(
    engine: Engine,
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
      // A page that holds its Chromium up takes it along.
      const late = setTimeout(() => host.kill(), CLOSE_MS)
      try {
        await host.ask({ op: 'close', session }).catch(() => {})
        host.onSent(session, null)
        await proxy.close()
      } catch (error) {
        parts.log('a proxy of the browser did not close', error)
      } finally {
        clearTimeout(late)
        engines.leave(engine)
        leave()
      }
    }

    signal.addEventListener('abort', abort, { once: true })
    try {
      signal.throwIfAborted()
      await host.ask({ op: 'open', session, proxy: proxy.url })
      signal.throwIfAborted()
    } catch (error) {
      await close()
      if (signal.aborted) throw signal.reason
      throw error instanceof ServiceError ? error : busy('No page could be opened.')
    }
    const check = (url: string) => void checkUrl(url, allow)
    return visit({ host, session, proxy, check, signal, close })
  }

  async function render({ url, owner, timeoutMs = RENDER_MS, signal: given }: BrowserRequest) {
    checkUrl(url, allow)
    // The time of a visit begins when it has a place.
    const leave = await places.enter(owner, { signal: given, patienceMs: PATIENCE_MS })
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
    browser: { works: engines.works, open, render } satisfies Browser,
    async close(): Promise<void> {
      places.close()
      await engines.close()
    },
  }
}
