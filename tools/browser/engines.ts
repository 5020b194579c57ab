import { MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { startHost, type Host, type HostSettings, type HostWay } from './host.ts'

export interface EngineParts extends HostSettings {
  readonly clock: Clock
  /** In production Chromium is never run without its own sandbox. */
  readonly production: boolean
  /** Sessions of one Chromium, before another takes its place. */
  readonly mostSessions?: number
  /** Of a Chromium with all its pages, in bytes; above it ends, and they with it. */
  readonly mostMemory?: number
  readonly log: (message: string, error: unknown) => void
}

/** A Chromium in use. */
export interface Engine {
  readonly host: Host
  /** So far, and of these still open. */
  sessions: number
  open: number
}

/** The Chromium of this node: started when it is needed, and thrown away early. */
export interface Engines {
  /** False for a while after none could be started. */
  works(): boolean
  /** One session more on the running one. Rejects with `provider_not_configured`. */
  take(): Promise<Engine>
  /** The session has ended. */
  leave(engine: Engine): void
  close(): Promise<void>
}

const MOST_SESSIONS = 200
const MOST_MEMORY = 3 * 1024 ** 3
const LOOK_MS = SECOND
/** An idle Chromium gives its memory back. */
const IDLE_MS = MINUTE
/** After it did not start, until it is tried again. */
const TRY_AGAIN_MS = MINUTE

export function createEngines(parts: EngineParts): Engines {
  const { clock, log, mostSessions = MOST_SESSIONS, mostMemory = MOST_MEMORY } = parts
  const hosts = new Set<Host>()
  let [closed, failedAt] = [false, -Infinity]
  let current: Engine | null = null
  let starting: Promise<Engine> | null = null
  let idle: NodeJS.Timeout | undefined
  /** The safest first; the first that works is kept. */
  let ways: readonly HostWay[] = waysHere(parts.production)

  const works = () => clock.mono() - failedAt >= TRY_AGAIN_MS

  async function start(): Promise<Engine> {
    for (const way of ways) {
      if (closed) break
      try {
        const host = await startHost(parts, way)
        watch(host)
        ways = [way]
        return (current = { host, sessions: 0, open: 0 })
      } catch (error) {
        log(`Chromium does not start ${said(way)}`, error)
      }
    }
    failedAt = clock.mono()
    throw notHere()
  }

  function watch(host: Host): void {
    hosts.add(host)
    if (closed) host.kill()
    const look = setInterval(() => {
      void host.memory().then((size) => size > mostMemory && host.kill())
    }, LOOK_MS)
    look.unref()
    void host.ended.then(() => {
      clearInterval(look)
      hosts.delete(host)
      if (current?.host === host) current = null
    })
  }

  /** Takes no more sessions, and ends with its last. */
  function retire(engine: Engine): void {
    if (current === engine) current = null
    if (engine.open === 0) void engine.host.quit()
  }

  function rest(engine: Engine): void {
    idle = setTimeout(() => {
      if (engine === current && engine.open === 0) retire(engine)
    }, IDLE_MS)
    idle.unref()
  }

  return {
    works,
    async take() {
      clearTimeout(idle)
      if (closed || !works()) throw notHere()
      if (current !== null && !current.host.lives()) current = null
      if (current !== null && current.sessions >= mostSessions) retire(current)
      starting ??= current === null ? start().finally(() => (starting = null)) : null
      const engine = current ?? (await starting)
      if (engine === null) throw notHere()
      engine.sessions += 1
      engine.open += 1
      return engine
    },
    leave(engine) {
      engine.open -= 1
      if (engine !== current) retire(engine)
      else if (engine.open === 0) rest(engine)
    },
    async close() {
      closed = true
      clearTimeout(idle)
      await starting?.catch(() => {})
      await Promise.all([...hosts].map((host) => host.quit()))
    },
  }
}

/** As root it is nobody's, so that Chromium can have its sandbox. */
function waysHere(production: boolean): readonly HostWay[] {
  const root = process.getuid?.() === 0
  const asNobody = root ? [{ nobody: true, sandbox: false }] : []
  const bare = production ? [] : [...asNobody, { nobody: false, sandbox: false }]
  return [{ nobody: root, sandbox: true }, ...bare]
}

const said = ({ nobody, sandbox }: HostWay): string =>
  `${nobody ? 'as nobody' : 'as this user'}, ${sandbox ? 'with' : 'without'} its sandbox`

const notHere = (): ServiceError =>
  new ServiceError('provider_not_configured', {
    requires: ['CHROMIUM_PATH'],
    detail: 'This station has no browser that starts.',
  })
