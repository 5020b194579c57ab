import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from '../persistence/postgres/postgres-connection-pool.ts'
import {
  createStationHttpClient,
  onboardAgents,
  type StationHttpClient,
} from './station-http-client.ts'
import type { SeededRandom } from './seeded-random.ts'
import {
  compareOperationsWithLedger,
  findDatabaseBackendPid,
  type OperationsLedgerComparison,
} from './compare-operations-with-ledger.ts'
import {
  acknowledgedOperationIdOf,
  retryWithSameIdempotencyKey,
  randomRetriedAgentRequest,
  sendAgentRequestAttempt,
  type RetriedAgentRequest,
} from './chaos-agent-operations-with-retries.ts'
import {
  readPostmasterPid,
  spawnStationProcess,
  type StationProcess,
  type StationProcessOptions,
} from './station-process.ts'

/** The process to kill: the service, the database server, or one of its backends. */
export const CRASH_TARGETS = ['station', 'postgres', 'backend'] as const
export type CrashTarget = (typeof CRASH_TARGETS)[number]

export interface CrashRound extends OperationsLedgerComparison {
  readonly victim: CrashTarget
  /** Duration of the load before the kill. */
  readonly afterMs: number
  /** Requests in flight at the kill, without a reply. */
  readonly unknown: number
  /** From the kill to the first reply to a later request. */
  readonly recoveryMs: number
  /** Acknowledged operations repeated after the crash, and those with a different reply. */
  readonly replayed: number
  readonly changed: number
  readonly settled: readonly RetriedAgentRequest[]
  /** Interrupted streams: their key is free again when their hold has expired. */
  readonly open: readonly RetriedAgentRequest[]
}

const CLIENTS = 24
const AGENTS = 6
const EARLIEST_MS = 100
const LATEST_MS = 900
const AFTER_CRASH_MS = 200
const REPEATED_OPERATIONS = 25

/** Runs load on a station, kills a part of it at a random time and waits for its recovery. */
export async function runCrashRounds(
  options: StationProcessOptions,
  sql: Sql,
  rounds: number,
  chance: SeededRandom,
  told: (round: CrashRound, at: number) => void,
): Promise<{ rounds: CrashRound[]; station: StationProcess }> {
  let station = await spawnStationProcess(options)
  const done: CrashRound[] = []
  for (let at = 1; at <= rounds; at++) {
    // Every target once; the seed decides the order and the time.
    const victim =
      at <= CRASH_TARGETS.length
        ? (CRASH_TARGETS[at - 1] as CrashTarget)
        : chance.pick(CRASH_TARGETS)
    const played = await runCrashRound(options, station, sql, victim, chance, at)
    station = played.station
    done.push(played.round)
    told(played.round, at)
  }
  return { rounds: done, station }
}

interface CrashLoad {
  readonly operations: RetriedAgentRequest[]
  /** Resolves with the time of the first reply to a request sent after `instant`. */
  answeredAfter(instant: number): Promise<number>
  stop(): Promise<void>
}

function startCrashLoad(
  client: StationHttpClient,
  agents: Parameters<typeof randomRetriedAgentRequest>[0],
  chance: SeededRandom,
  name: string,
): CrashLoad {
  const operations: RetriedAgentRequest[] = []
  const listeners = new Set<(operation: RetriedAgentRequest, at: number) => void>()
  let stopping = false
  const run = async (): Promise<void> => {
    while (!stopping) {
      const operation = randomRetriedAgentRequest(agents, `${name}-${operations.length}`, chance)
      operations.push(operation)
      // An interrupted stream keeps its key longer than a round, so it is retried at the end.
      if (operation.kind === 'stream') await sendAgentRequestAttempt(client, operation)
      else await retryWithSameIdempotencyKey(client, operation)
      for (const heard of listeners) heard(operation, performance.now())
    }
  }
  const running = Promise.all(Array.from({ length: CLIENTS }, run))
  return {
    operations,
    answeredAfter: (instant) =>
      new Promise((resolve) => {
        const heard = ({ startedAt, acknowledged }: RetriedAgentRequest, at: number): void => {
          if (startedAt < instant || acknowledged === null) return
          listeners.delete(heard)
          resolve(at)
        }
        listeners.add(heard)
      }),
    async stop() {
      stopping = true
      await running
    },
  }
}

async function runCrashRound(
  options: StationProcessOptions,
  before: StationProcess,
  sql: Sql,
  victim: CrashTarget,
  chance: SeededRandom,
  at: number,
): Promise<{ round: CrashRound; station: StationProcess }> {
  const client = createStationHttpClient(before.url, CLIENTS)
  const agents = await onboardAgents(client, AGENTS)
  const load = startCrashLoad(client, agents, chance, `r${at}`)
  const afterMs = chance.integer(EARLIEST_MS, LATEST_MS)
  await sleep(afterMs)
  const backend =
    victim === 'backend'
      ? await withTimeout(findDatabaseBackendPid(sql), 'a backend to be found')
      : null
  const acknowledged = load.operations.filter((one) => one.acknowledged !== null)
  const unknown = load.operations.length - acknowledged.length
  const killedAt = performance.now()
  const recovered = load.answeredAfter(killedAt)
  const station = await killTarget(options, before, victim, backend)
  const recoveryMs = (await withTimeout(recovered, `the ${victim} to recover`)) - killedAt
  await sleep(AFTER_CRASH_MS)
  await load.stop()
  const repeated = Array.from({ length: REPEATED_OPERATIONS }, () => chance.pick(acknowledged))
  const changed = await countChangedReplies(
    client,
    repeated.filter((one) => one !== undefined),
  )
  const open = load.operations.filter((one) => one.acknowledged === null && one.refused === null)
  const settled = load.operations.filter((one) => !open.includes(one))
  const comparison = await withTimeout(
    compareOperationsWithLedger(sql, load.operations),
    'the ledger to be read',
  )
  await client.close()
  const counts = { victim, afterMs, unknown, recoveryMs, replayed: repeated.length, changed }
  return { round: { ...comparison, ...counts, settled, open }, station }
}

/** A timeout turns a hang into a failure. */
async function withTimeout<T>(work: Promise<T>, what: string): Promise<T> {
  const patience = new AbortController()
  const late = sleep(MAX_STEP_WAIT_MS, TIMED_OUT, { signal: patience.signal }).catch(
    () => TIMED_OUT,
  )
  const first = await Promise.race([work, late])
  patience.abort()
  if (first === TIMED_OUT) throw new Error(`waited ${MAX_STEP_WAIT_MS / 1000} s for ${what}`)
  return first as T
}
const TIMED_OUT = Symbol('late')
const MAX_STEP_WAIT_MS = 30_000

/** Kills with SIGKILL. This process restarts the station; the supervisor restarts the database. */
async function killTarget(
  options: StationProcessOptions,
  station: StationProcess,
  victim: CrashTarget,
  backend: number | null,
): Promise<StationProcess> {
  if (victim === 'station') {
    await station.kill()
    return spawnStationProcess(options)
  }
  const pid = victim === 'backend' ? backend : readPostmasterPid(options.dataDir)
  if (pid === null) throw new Error(`there is no ${victim} to kill`)
  process.kill(pid, 'SIGKILL')
  return station
}

/** Repeats requests acknowledged before the crash; counts replies that differ from the first. */
async function countChangedReplies(
  client: StationHttpClient,
  operations: readonly RetriedAgentRequest[],
): Promise<number> {
  let changed = 0
  for (const operation of operations) {
    const first = operation.acknowledged
    const answer = await sendAgentRequestAttempt(client, operation)
    if (answer === null || answer.status !== 200 || acknowledgedOperationIdOf(answer) !== first)
      changed += 1
    operation.acknowledged = first
  }
  return changed
}

/** Retries the interrupted streams until their holds have expired. */
export async function retryInterruptedStreamsAndCompareLedger(
  station: StationProcess,
  sql: Sql,
  rounds: readonly CrashRound[],
): Promise<OperationsLedgerComparison> {
  const client = createStationHttpClient(station.url, CLIENTS)
  await Promise.all(
    rounds
      .flatMap(({ open }) => open)
      .map((operation) => retryWithSameIdempotencyKey(client, operation)),
  )
  await client.close()
  const all = rounds.flatMap(({ settled, open }) => [...settled, ...open])
  return compareOperationsWithLedger(sql, all)
}
