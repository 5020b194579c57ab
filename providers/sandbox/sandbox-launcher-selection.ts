import type { Clock } from '../../core/clock.ts'
import {
  startSandboxHostProcess,
  toSandboxStartFailure,
  formatSandboxStartFailure,
  type SandboxHostProcess,
  type SandboxStartFailure,
} from './spawn-sandbox-host-process.ts'
import { listSandboxLaunchers, type SandboxLauncher } from './sandbox-launchers.ts'
import { prepareSandboxHostProgram } from './prepare-sandbox-host-program.ts'

/** Selects how hosts are started on this machine. */
export interface SandboxLauncherSelector {
  /** Null until a selection was made. */
  readonly selected: () => SandboxLauncher | null
  /** Why all launchers failed when last tried; null where one worked, or none was tried. */
  readonly failure: () => string | null
  /** True while a failure is too recent to retry. */
  readonly isCoolingDown: () => boolean
  /** Returns the best working launcher; null where none works. */
  select(): Promise<SandboxLauncher | null>
  close(): Promise<void>
}

export interface SandboxLauncherSelectionDeps {
  readonly clock: Clock
  readonly searchPath: string
  readonly log: (message: string, error: unknown) => void
}

/** Minimum delay before failed launchers are retried. */
const LAUNCHER_RETRY_MS = 30_000

/** Selects once and keeps the result: a later failure never weakens the isolation. */
export function createSandboxLauncherSelection({
  clock,
  searchPath,
  log,
}: SandboxLauncherSelectionDeps): SandboxLauncherSelector {
  let found: SandboxLauncher | null = null
  let looking: Promise<SandboxLauncher | null> | null = null
  let trying: SandboxHostProcess | null = null
  let failed: { readonly reason: string; readonly at: number } | null = null
  let closed = false
  /** Failures by launcher, logged once each. */
  const logged = new Map<number, string>()

  async function faultOf(launch: SandboxLauncher): Promise<SandboxStartFailure | null> {
    try {
      trying = startSandboxHostProcess(launch, 'javascript')
      const up = await trying.ready()
      trying.kill()
      await trying.ended
      return up ? null : await trying.readStartFailure()
    } catch (error) {
      return toSandboxStartFailure(error)
    }
  }

  async function look(): Promise<SandboxLauncher | null> {
    const root = process.getuid?.() === 0
    let reason = ''
    const launchers = listSandboxLaunchers(await prepareSandboxHostProgram(), { searchPath, root })
    for (const [at, launch] of launchers.entries()) {
      if (closed) return null
      const failure = await faultOf(launch)
      if (failure === null) {
        failed = null
        return (found = launch)
      }
      if (closed) return null
      reason = failure.reason
      const wrong = `${launch.isolation}: ${formatSandboxStartFailure(failure)}`
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

  const isCoolingDown = () => failed !== null && clock.mono() - failed.at < LAUNCHER_RETRY_MS

  return {
    selected: () => found,
    failure: () => failed?.reason ?? null,
    isCoolingDown,
    select() {
      if (found !== null || isCoolingDown()) return Promise.resolve(found)
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
