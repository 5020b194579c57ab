import { setTimeout as sleep } from 'node:timers/promises'
import {
  auditClusterRepliesAgainstDatabase,
  type ClusterAuditResult,
  type ClusterRoundOperations,
} from './cluster-audit.ts'
import {
  withClusterEnvironment,
  type ClusterOptions,
  type ClusterEnvironment,
} from './start-three-station-cluster.ts'
import { startBackgroundLoad, type BackgroundLoad } from './cluster-background-load.ts'
import { createRoundAgents, startClientLoad } from './cluster-client-load.ts'
import {
  CLUSTER_FAULT_INJECTORS,
  CLUSTER_FAULT_KINDS,
  type ClusterFaultKind,
} from './cluster-fault-injection.ts'
import { findInstalledProgram, type NginxRequest } from '../nginx-process.ts'
import { findRedisProgram } from '../redis-server.ts'

/** Requests in the nginx log from the fault to the end of the round. */
export interface NginxRequestAndErrorCounts {
  readonly requests: number
  /** Statuses of 500 and above, and requests that clients aborted. */
  readonly errors: Readonly<Record<string, number>>
}

export interface ClusterRound {
  readonly fault: ClusterFaultKind
  readonly afterMs: number
  readonly requested: number
  readonly answered: number
  /** The longest time from the first attempt to the reply. */
  readonly slowestMs: number
  readonly all: NginxRequestAndErrorCounts
  /** Requests answered by unaffected stations. */
  readonly survivors: NginxRequestAndErrorCounts
}

export interface ClusterProofResult {
  readonly rounds: readonly ClusterRound[]
  readonly audit: ClusterAuditResult
  /** Reconnects of signal readers. */
  readonly returns: number
  /** Errors that nginx logged, except unreachable stations. */
  readonly complaints: readonly string[]
}

export interface ClusterProofOptions extends ClusterOptions {
  readonly rounds: number
  readonly onRound: (round: ClusterRound, at: number) => void
}

const EARLIEST_MS = 300
const LATEST_MS = 1_200
const AFTER_FAULT_MS = 600
const DRAIN_TIMEOUT_MS = 90_000
const POLL_MS = 100
/** With at least this many rounds, the last one is a freeze that outlasts every lease. */
const MIN_ROUNDS_FOR_LONG_FREEZE = 6

/** Programs missing on this machine; null when all are installed. */
export function missingClusterPrograms(): string | null {
  const missing = [
    ...(findInstalledProgram('nginx') === null ? ['nginx'] : []),
    ...(findRedisProgram() === null ? ['redis-server'] : []),
  ]
  return missing.length === 0 ? null : `${missing.join(' and ')} not installed`
}

/** Runs load on three stations behind nginx while faults hit one part after the other. */
export const runClusterFaultProof = (part: ClusterProofOptions): Promise<ClusterProofResult> =>
  withClusterEnvironment(part, async (ground) => {
    const backgroundLoad = await startBackgroundLoad(ground)
    try {
      const rounds: ClusterRound[] = []
      const played: ClusterRoundOperations[] = []
      for (const [at, trouble] of faultsFor(part).entries()) {
        const one = await runClusterRound(ground, backgroundLoad, trouble, at + 1)
        rounds.push(one.round)
        played.push(one.played)
        part.onRound(one.round, at + 1)
      }
      const slotsLeft = await backgroundLoad.waitForSlots()
      await waitForDeliveriesAndSignals(ground, backgroundLoad)
      const { sql, receiver, nginx } = ground
      const audited = await auditClusterRepliesAgainstDatabase({
        sql,
        backgroundLoad,
        receiver,
        rounds: played,
        slotsLeft,
      })
      const returns = backgroundLoad.readers.reduce((sum, one) => sum + one.reconnects, 0)
      return {
        rounds,
        audit: audited,
        returns,
        complaints: unexpectedNginxErrors(nginx.errorLog()),
      }
    } finally {
      await backgroundLoad.close()
    }
  })

/** Each kind of fault once, then random ones; the last round is the longest fault. */
function faultsFor({ rounds, chance }: ClusterProofOptions): ClusterFaultKind[] {
  const list: ClusterFaultKind[] = []
  const left = [...CLUSTER_FAULT_KINDS]
  while (list.length < rounds) {
    const next = left.length > 0 ? chance.pick(left) : chance.pick(CLUSTER_FAULT_KINDS)
    if (left.includes(next)) left.splice(left.indexOf(next), 1)
    list.push(next)
  }
  if (rounds >= MIN_ROUNDS_FOR_LONG_FREEZE) list[rounds - 1] = 'lapse'
  return list
}

async function runClusterRound(
  ground: ClusterEnvironment,
  house: BackgroundLoad,
  fault: ClusterFaultKind,
  at: number,
) {
  const { chance, nginx } = ground
  const cast = await createRoundAgents(ground)
  const load = startClientLoad(ground, cast, `c${at}`)
  const afterMs = chance.integer(EARLIEST_MS, LATEST_MS)
  await sleep(afterMs)
  await house.makeSlotsDue()
  const before = nginx.requests().length
  const hit = await CLUSTER_FAULT_INJECTORS[fault](ground)
  await sleep(AFTER_FAULT_MS)
  await load.stop()
  const seen = nginx.requests().slice(before)
  const { operations } = load
  const done: ClusterRound = {
    fault,
    afterMs,
    requested: operations.length,
    answered: operations.filter((one) => (one.acknowledged ?? one.limited) !== null).length,
    slowestMs: load.slowestMs(),
    all: trafficOf(seen),
    survivors: trafficOf(seen.filter(({ ports }) => ports.at(-1) !== hit)),
  }
  return { round: done, played: { cast, operations } }
}

const NGINX_CLIENT_CLOSED_REQUEST = 499

function trafficOf(passed: readonly NginxRequest[]): NginxRequestAndErrorCounts {
  const errors: Record<string, number> = {}
  for (const { status } of passed)
    if (status >= NGINX_CLIENT_CLOSED_REQUEST) errors[status] = (errors[status] ?? 0) + 1
  return { requests: passed.length, errors }
}

/** Waits for pending deliveries and signals. */
async function waitForDeliveriesAndSignals(
  { sql }: ClusterEnvironment,
  { readers }: BackgroundLoad,
): Promise<void> {
  const until = performance.now() + DRAIN_TIMEOUT_MS
  while (performance.now() < until) {
    const [found] = await sql<{ pending: number; last: string | null }[]>`
      select (select count(*)::int from deliveries where state = 'pending') as pending,
             (select max(id)::text from signals) as last`
    const heard = readers.every(({ ids }) => ids.at(-1) === (found?.last ?? undefined))
    if (found?.pending === 0 && heard) return
    await sleep(POLL_MS)
  }
}

/** nginx logs each unreachable station, which is expected. */
const EXPECTED_NGINX_ERRORS =
  /connect\(\) failed|prematurely closed|reset by peer|timed out|temporarily disabled/
const unexpectedNginxErrors = (text: string): string[] => [
  ...new Set(
    text
      .split('\n')
      .filter((line) => line !== '' && !EXPECTED_NGINX_ERRORS.test(line))
      .map((line) => line.replace(/^.*?\*\d+ /, '').replace(/, client: .*$/, '')),
  ),
]
