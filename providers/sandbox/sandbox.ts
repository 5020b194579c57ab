import { availableParallelism } from 'node:os'
import type { Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import {
  startSandboxHostProcess,
  type SandboxHostProcess,
  type SandboxJobOutcome,
  type SandboxStartFailure,
} from './spawn-sandbox-host-process.ts'
import { createSandboxStartFailureLog } from './sandbox-start-failure-log.ts'
import { sandboxUnavailableError } from './sandbox-errors.ts'
import { createSandboxHostPool } from './sandbox-host-pool.ts'
import {
  SANDBOX_ISOLATION_LEVELS,
  type SandboxIsolationLevel,
  type SandboxLanguage,
  type Sandbox,
  type SandboxListener,
  type SandboxJob,
  type SandboxResult,
  type SandboxAbortSignals,
} from './sandbox-port.ts'
import { createSandboxLauncherSelection } from './sandbox-launcher-selection.ts'

/** The sandbox: runs untrusted programs in disposable processes. */

export interface SandboxDeps {
  readonly clock: Clock
  /** Where `bwrap` and `unshare` are searched. */
  readonly searchPath: string
  readonly minIsolation: SandboxIsolationLevel
  readonly log: (message: string, error: unknown) => void
  /** Delay before a failed start is retried, also without a job. */
  readonly againMs?: number
}

export interface SandboxHealth {
  readonly ok: boolean
  readonly kind: string
  readonly detail?: string
}

/** Of each language, on any machine: one owner, or one kind of program, never holds all (decision 485). */
const MIN_HOSTS = 2
const LANGUAGES: readonly SandboxLanguage[] = ['python', 'javascript', 'bash']

const isolationRank = (isolation: SandboxIsolationLevel): number =>
  SANDBOX_ISOLATION_LEVELS.indexOf(isolation)

/** Creates the sandbox. No process starts before the first job. */
export function createSandbox(deps: SandboxDeps) {
  const { clock, searchPath, minIsolation, log, againMs } = deps
  const launcherSelection = createSandboxLauncherSelection({ clock, searchPath, log })
  const size = Math.max(MIN_HOSTS, availableParallelism() - 1)
  const isolation = () => launcherSelection.selected()?.isolation ?? null

  function tooWeak(): boolean {
    const here = isolation()
    return here !== null && isolationRank(here) < isolationRank(minIsolation)
  }

  async function start(
    language: SandboxLanguage,
  ): Promise<SandboxHostProcess | SandboxStartFailure> {
    const launch = await launcherSelection.select()
    if (launch === null)
      return { reason: launcherSelection.failure() ?? 'it is closing', detail: '' }
    if (tooWeak()) throw isolationTooWeakError(minIsolation)
    return startSandboxHostProcess(launch, language)
  }

  const faults = createSandboxStartFailureLog(launcherSelection, log)
  const pools = new Map(
    LANGUAGES.map((language) => [
      language,
      createSandboxHostPool({
        clock,
        size,
        start: () => start(language),
        onStart: (failure) => faults.record(language, failure),
        ...(againMs === undefined ? {} : { againMs }),
      }),
    ]),
  )

  async function check(): Promise<void> {
    // With a required isolation nothing is held before it is verified.
    if (minIsolation !== 'process') await launcherSelection.select()
    if (tooWeak()) throw isolationTooWeakError(minIsolation)
    const failure = launcherSelection.failure()
    if (failure !== null && launcherSelection.isCoolingDown())
      throw sandboxUnavailableError(failure)
  }

  function health(): SandboxHealth {
    const wrong = tooWeak() ? [`SANDBOX_MIN_ISOLATION demands ${minIsolation}`] : faults.list()
    const kind = isolation() ?? (launcherSelection.failure() === null ? 'untried' : 'none')
    if (wrong.length === 0) return { ok: true, kind }
    return { ok: false, kind, detail: wrong.join('; ') }
  }

  async function run(
    { language, ...job }: SandboxJob,
    { signal, waiting }: SandboxAbortSignals,
    listener?: SandboxListener,
  ): Promise<SandboxResult> {
    await check()
    const pool = pools.get(language)
    if (pool === undefined) throw new Error(`no pool for ${language}`)
    let [stdout, startedAt] = ['', clock.mono()]
    const outcome = await pool.run(
      { ...job, signal, waiting },
      {
        onStart() {
          startedAt = clock.mono()
          listener?.onStart()
        },
        onOutput(delta) {
          stdout += delta
          listener?.onOutput(delta)
        },
      },
    )
    const ms = Math.round(clock.mono() - startedAt)
    return {
      ...toJobResult(outcome, job.timeoutMs),
      stdout,
      ms,
      isolation: isolation() ?? 'process',
    }
  }

  return {
    sandbox: {
      check,
      run,
      level: () => ({
        isolation: isolation(),
        allowed: !tooWeak(),
        starts:
          launcherSelection.failure() === null && faults.brokenLanguageCount() < LANGUAGES.length,
      }),
    } satisfies Sandbox,
    health,
    async close(): Promise<void> {
      await Promise.all([
        launcherSelection.close(),
        ...[...pools.values()].map((pool) => pool.close()),
      ])
    },
  }
}

function toJobResult(outcome: SandboxJobOutcome, timeoutMs: number) {
  const nothing = { stderr: '', result: null, truncated: false }
  switch (outcome.kind) {
    case 'done': {
      const { stderr, result, error, truncated } = outcome
      return { stderr, result, error, truncated }
    }
    case 'late':
      return { ...nothing, error: `timed out after ${timeoutMs} ms` }
    case 'memory':
      return { ...nothing, error: 'out of memory' }
    case 'died':
      return { ...nothing, error: 'the program ended the process it ran in' }
    case 'lost':
      throw new ServiceError('sandbox_busy', { retry_after: 2, detail: 'The host died.' })
  }
}

const isolationTooWeakError = (minIsolation: SandboxIsolationLevel) =>
  new ServiceError('provider_not_configured', {
    requires: ['bubblewrap'],
    detail: `Programs run here only with the isolation "${minIsolation}", which this machine does not offer.`,
  })
