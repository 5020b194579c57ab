import { availableParallelism } from 'node:os'
import type { Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { startChild, type Child, type Outcome, type StartFault } from './child.ts'
import { createFaults } from './faults.ts'
import { unavailable } from './refusals.ts'
import { createPool } from './pool.ts'
import {
  ISOLATION,
  type Isolation,
  type Language,
  type Sandbox,
  type SandboxHearing,
  type SandboxJob,
  type SandboxRun,
  type SandboxSignals,
} from './port.ts'
import { createWay } from './way.ts'

export interface SandboxParts {
  readonly clock: Clock
  /** Where `bwrap` and `unshare` are looked for. */
  readonly searchPath: string
  readonly minIsolation: Isolation
  readonly log: (message: string, error: unknown) => void
  /** What did not start is tried again after so long, also without a job. */
  readonly againMs?: number
}

export interface SandboxHealth {
  readonly ok: boolean
  readonly kind: string
  readonly detail?: string
}

const LANGUAGES: readonly Language[] = ['python', 'javascript', 'bash']

const rank = (isolation: Isolation): number => ISOLATION.indexOf(isolation)

/** Programs of strangers in disposable processes. None is started before the first job. */
export function createSandbox(parts: SandboxParts) {
  const { clock, searchPath, minIsolation, log, againMs } = parts
  const way = createWay({ clock, searchPath, log })
  const size = Math.max(1, availableParallelism() - 1)
  const isolation = () => way.found()?.isolation ?? null

  function tooWeak(): boolean {
    const here = isolation()
    return here !== null && rank(here) < rank(minIsolation)
  }

  async function start(language: Language): Promise<Child | StartFault> {
    const launch = await way.find()
    if (launch === null) return { reason: way.fault() ?? 'it is closing', complaint: '' }
    if (tooWeak()) throw refused(minIsolation)
    return startChild(launch, language)
  }

  const faults = createFaults(way, log)
  const pools = new Map(
    LANGUAGES.map((language) => [
      language,
      createPool({
        clock,
        size,
        start: () => start(language),
        note: (fault) => faults.note(language, fault),
        ...(againMs === undefined ? {} : { againMs }),
      }),
    ]),
  )

  async function check(): Promise<void> {
    // Where an isolation is demanded, nothing is held before it is known to be there.
    if (minIsolation !== 'process') await way.find()
    if (tooWeak()) throw refused(minIsolation)
    const fault = way.fault()
    if (fault !== null && way.resting()) throw unavailable(fault)
  }

  function health(): SandboxHealth {
    const wrong = tooWeak() ? [`SANDBOX_MIN_ISOLATION demands ${minIsolation}`] : faults.list()
    const kind = isolation() ?? (way.fault() === null ? 'untried' : 'none')
    if (wrong.length === 0) return { ok: true, kind }
    return { ok: false, kind, detail: wrong.join('; ') }
  }

  async function run(
    { language, ...job }: SandboxJob,
    { signal, waiting }: SandboxSignals,
    hear?: SandboxHearing,
  ): Promise<SandboxRun> {
    await check()
    const pool = pools.get(language)
    if (pool === undefined) throw new Error(`no pool for ${language}`)
    let [stdout, startedAt] = ['', clock.mono()]
    const outcome = await pool.run(
      { ...job, signal, waiting },
      {
        begun() {
          startedAt = clock.mono()
          hear?.begun()
        },
        text(delta) {
          stdout += delta
          hear?.text(delta)
        },
      },
    )
    const ms = Math.round(clock.mono() - startedAt)
    return { ...presented(outcome, job.timeoutMs), stdout, ms, isolation: isolation() ?? 'process' }
  }

  return {
    sandbox: {
      check,
      run,
      level: () => ({
        isolation: isolation(),
        allowed: !tooWeak(),
        starts: way.fault() === null && faults.languages() < LANGUAGES.length,
      }),
    } satisfies Sandbox,
    health,
    async close(): Promise<void> {
      await Promise.all([way.close(), ...[...pools.values()].map((pool) => pool.close())])
    },
  }
}

function presented(outcome: Outcome, timeoutMs: number) {
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

const refused = (minIsolation: Isolation) =>
  new ServiceError('provider_not_configured', {
    requires: ['bubblewrap'],
    detail: `Programs run here only with the isolation "${minIsolation}", which this machine does not offer.`,
  })
