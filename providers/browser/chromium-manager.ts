import { MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import {
  startBrowserHostProcess,
  type BrowserHostProcess,
  type BrowserHostSettings,
  type ChromiumLaunchMode,
} from './spawn-browser-host-child-process.ts'

/** Starts and retires the Chromium of this node. */

export interface ChromiumManagerDeps extends BrowserHostSettings {
  readonly clock: Clock
  /** In production Chromium never runs without its own sandbox. */
  readonly production: boolean
  /** Sessions per Chromium before it is replaced. */
  readonly maxSessions?: number
  /** Memory limit of a Chromium with all its pages, in bytes; above it Chromium and its pages end. */
  readonly maxMemoryBytes?: number
  readonly log: (message: string, error: unknown) => void
}

/** A running Chromium. */
export interface ChromiumInstance {
  readonly host: BrowserHostProcess
  /** Sessions opened so far, and those still open. */
  sessions: number
  openSessions: number
}

/** Manages the Chromium of this node: starts it on demand and replaces it early. */
export interface ChromiumManager {
  /** False for a while after a failed start. */
  isAvailable(): boolean
  /** Takes a session on the running Chromium. Rejects with `provider_not_configured`. */
  acquire(): Promise<ChromiumInstance>
  /** Releases a session. */
  release(engine: ChromiumInstance): void
  close(): Promise<void>
}

const MAX_CHROMIUM_SESSIONS = 200
const MAX_CHROMIUM_MEMORY_BYTES = 3 * 1024 ** 3
const CHROMIUM_MEMORY_POLL_MS = SECOND
/** An idle Chromium is ended to free its memory. */
const CHROMIUM_IDLE_MS = MINUTE
/** Delay after a failed start. */
const CHROMIUM_RETRY_MS = MINUTE

export function createChromiumManager(deps: ChromiumManagerDeps): ChromiumManager {
  const {
    clock,
    log,
    maxSessions = MAX_CHROMIUM_SESSIONS,
    maxMemoryBytes = MAX_CHROMIUM_MEMORY_BYTES,
  } = deps
  const hosts = new Set<BrowserHostProcess>()
  let [closed, failedAt] = [false, -Infinity]
  let current: ChromiumInstance | null = null
  let starting: Promise<ChromiumInstance> | null = null
  let idle: NodeJS.Timeout | undefined
  /** Safest first; the first that works is kept. */
  let modes: readonly ChromiumLaunchMode[] = listLaunchModes(deps.production)

  const isAvailable = () => clock.mono() - failedAt >= CHROMIUM_RETRY_MS

  async function start(): Promise<ChromiumInstance> {
    for (const mode of modes) {
      if (closed) break
      try {
        const host = await startBrowserHostProcess(deps, mode)
        watch(host)
        modes = [mode]
        return (current = { host, sessions: 0, openSessions: 0 })
      } catch (error) {
        log(`Chromium does not start ${describeLaunchMode(mode)}`, error)
      }
    }
    failedAt = clock.mono()
    throw browserNotConfiguredError()
  }

  function watch(host: BrowserHostProcess): void {
    hosts.add(host)
    if (closed) host.kill()
    const look = setInterval(() => {
      void host.readMemoryBytes().then((size) => size > maxMemoryBytes && host.kill())
    }, CHROMIUM_MEMORY_POLL_MS)
    look.unref()
    void host.ended.then(() => {
      clearInterval(look)
      hosts.delete(host)
      if (current?.host === host) current = null
    })
  }

  /** Accepts no more sessions, and ends with the last one. */
  function retire(engine: ChromiumInstance): void {
    if (current === engine) current = null
    if (engine.openSessions === 0) void engine.host.quit()
  }

  function rest(engine: ChromiumInstance): void {
    idle = setTimeout(() => {
      if (engine === current && engine.openSessions === 0) retire(engine)
    }, CHROMIUM_IDLE_MS)
    idle.unref()
  }

  return {
    isAvailable,
    async acquire() {
      clearTimeout(idle)
      if (closed || !isAvailable()) throw browserNotConfiguredError()
      if (current !== null && !current.host.isAlive()) current = null
      if (current !== null && current.sessions >= maxSessions) retire(current)
      starting ??= current === null ? start().finally(() => (starting = null)) : null
      const engine = current ?? (await starting)
      if (engine === null) throw browserNotConfiguredError()
      engine.sessions += 1
      engine.openSessions += 1
      return engine
    },
    release(engine) {
      engine.openSessions -= 1
      if (engine !== current) retire(engine)
      else if (engine.openSessions === 0) rest(engine)
    },
    async close() {
      closed = true
      clearTimeout(idle)
      await starting?.catch(() => {})
      await Promise.all([...hosts].map((host) => host.quit()))
    },
  }
}

/** As root Chromium runs as nobody, so that its sandbox works. */
function listLaunchModes(production: boolean): readonly ChromiumLaunchMode[] {
  const root = process.getuid?.() === 0
  const asNobody = root ? [{ nobody: true, sandbox: false }] : []
  const bare = production ? [] : [...asNobody, { nobody: false, sandbox: false }]
  return [{ nobody: root, sandbox: true }, ...bare]
}

const describeLaunchMode = ({ nobody, sandbox }: ChromiumLaunchMode): string =>
  `${nobody ? 'as nobody' : 'as this user'}, ${sandbox ? 'with' : 'without'} its sandbox`

const browserNotConfiguredError = (): ServiceError =>
  new ServiceError('provider_not_configured', {
    requires: ['CHROMIUM_PATH'],
    detail: 'The browser of this station does not start.',
  })
