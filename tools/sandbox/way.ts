import type { Clock } from '../../core/clock.ts'
import { startChild, startFault, told, type Child, type StartFault } from './child.ts'
import { launches, type Launch } from './launch.ts'
import { hostProgram } from './program.ts'

/** How hosts are started on this machine. */
export interface Way {
  /** Null until it was looked for. */
  readonly found: () => Launch | null
  /** Why no host started in any way when they were last tried; null where one did, or none was. */
  readonly fault: () => string | null
  /** True while a failure is too fresh to try again. */
  readonly resting: () => boolean
  /** The best that works; null where no host can be started at all. */
  find(): Promise<Launch | null>
  close(): Promise<void>
}

export interface WayParts {
  readonly clock: Clock
  readonly searchPath: string
  readonly log: (message: string, error: unknown) => void
}

/** What is broken is tried again this often at most. */
const REST_MS = 30_000

/** Found once and kept: no later accident makes the isolation weaker. */
export function createWay({ clock, searchPath, log }: WayParts): Way {
  let found: Launch | null = null
  let looking: Promise<Launch | null> | null = null
  let trying: Child | null = null
  let failed: { readonly reason: string; readonly at: number } | null = null
  let closed = false
  /** What is wrong with each way, told once and not each time it is tried. */
  const logged = new Map<number, string>()

  async function faultOf(launch: Launch): Promise<StartFault | null> {
    try {
      trying = startChild(launch, 'javascript')
      const up = await trying.ready()
      trying.kill()
      await trying.ended
      return up ? null : await trying.why()
    } catch (error) {
      return startFault(error)
    }
  }

  async function look(): Promise<Launch | null> {
    const root = process.getuid?.() === 0
    let reason = ''
    const ways = launches(await hostProgram(), { searchPath, root })
    for (const [at, launch] of ways.entries()) {
      if (closed) return null
      const fault = await faultOf(launch)
      if (fault === null) {
        failed = null
        return (found = launch)
      }
      if (closed) return null
      reason = fault.reason
      const wrong = `${launch.isolation}: ${told(fault)}`
      if (logged.get(at) !== wrong) log('sandbox hosts do not start this way', new Error(wrong))
      logged.set(at, wrong)
    }
    failed = { reason, at: clock.mono() }
    return null
  }

  function lost(error: unknown): null {
    log('sandbox hosts have no program', error)
    failed = { reason: 'the program of its host cannot be read', at: clock.mono() }
    return null
  }

  const resting = () => failed !== null && clock.mono() - failed.at < REST_MS

  return {
    found: () => found,
    fault: () => failed?.reason ?? null,
    resting,
    find() {
      if (found !== null || resting()) return Promise.resolve(found)
      looking ??= look()
        .catch(lost)
        .finally(() => (looking = null))
      return looking
    },
    async close() {
      closed = true
      trying?.kill()
      await looking
    },
  }
}
