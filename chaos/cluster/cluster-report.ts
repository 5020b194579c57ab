import type {
  ClusterProofResult,
  ClusterRound,
  NginxRequestAndErrorCounts,
} from './run-cluster-chaos-proof.ts'
import { alignColumns, loadAverage } from '../quantiles-host-hardware-and-text-tables.ts'

/** Prints the results of the cluster proof. */

export const CLUSTER_PROOF_TABLE_HEADER =
  'round  trouble   after ms  asked  answered  slowest ms  survivors: errors of requests  load'

/** Formats a round as a row under `CLUSTER_PROOF_TABLE_HEADER`. */
export function formatClusterRound(round: ClusterRound, at: number): string {
  const cells = [
    [at, 5],
    [round.fault, 8],
    [round.afterMs, 8],
    [round.requested, 5],
    [round.answered, 8],
    [Math.round(round.slowestMs), 10],
    [formatErrorRate(round.survivors), 30],
    [loadAverage(), 4],
  ] as const
  return cells.map(([value, width]) => String(value).padEnd(width)).join('  ')
}

const errorsIn = ({ errors }: NginxRequestAndErrorCounts): number =>
  Object.values(errors).reduce((sum, count) => sum + count, 0)

const byStatus = ({ errors }: NginxRequestAndErrorCounts): string =>
  Object.entries(errors)
    .map(([status, count]) => `${count} x ${status}`)
    .join(', ')

function formatErrorRate(traffic: NginxRequestAndErrorCounts): string {
  const statuses = byStatus(traffic)
  return `${errorsIn(traffic)} of ${traffic.requests}${statuses === '' ? '' : ` (${statuses})`}`
}

const FAULT_DESCRIPTIONS: Readonly<Record<ClusterRound['fault'], string>> = {
  none: 'none',
  node: 'kill -9 of a node',
  postgres: 'kill -9 of PostgreSQL',
  redis: 'kill -9 of Redis',
  flush: 'FLUSHALL',
  freeze: 'a node stopped for seconds',
  lapse: 'a node stopped for longer than its leases',
}

/** Prints the summary; returns false when a guarantee is broken. */
export function printClusterSummary({
  rounds,
  audit,
  returns,
  complaints,
}: ClusterProofResult): boolean {
  const { signals, webhooks, slots } = audit
  const figures: [string, number, string][] = [
    ['lost', audit.lost, `of ${audit.acknowledged} answered`],
    ['double', audit.double, `of ${audit.operations} keys`],
    ['overspent in micros', audit.overspent, 'tasks, fuses, balances'],
    ['refused and charged', audit.refusedAndCharged, 'told that a limit was reached'],
    ['wrongly refused', audit.wronglyRejected, `of ${audit.operations} keys`],
    ['never answered', audit.unanswered, `of ${audit.operations} keys`],
    ['bounties wrongly paid', audit.bounties, 'claimed by several at once'],
    [
      'signals missed',
      signals.missed,
      `of ${signals.published} for each of 4 readers, ${returns} times cut off`,
    ],
    ['signals twice', signals.twice, 'or out of order'],
    ['webhooks lost', webhooks.lost, `of ${webhooks.due}; ${webhooks.again} were delivered again`],
    [
      'slots wrong',
      slots.wrong + slots.left,
      `of ${slots.ran}: not charged once, failed or left out`,
    ],
    ['broken invariants', audit.violations.length, 'gas verify'],
    ['complaints of nginx', complaints.length, 'but for stations it could not reach'],
  ]
  console.log('\nSummary of the cluster')
  console.log(alignColumns(figures.map(([name, count, of]) => [name, String(count), of])))
  for (const line of [...audit.violations, ...complaints, ...audit.refusals]) console.log(line)
  console.log(`\n${alignColumns([FAULT_TABLE_HEADER, ...errorRatesByFault(rounds)])}`)
  const good = figures.every(([, count]) => count === 0)
  console.log(good ? 'proved' : 'NOT PROVED')
  return good
}

const FAULT_TABLE_HEADER = ['trouble', 'N', 'errors of survivors', 'errors of all', 'slowest ms']

function errorRatesByFault(rounds: readonly ClusterRound[]): string[][] {
  const kinds = [...new Set(rounds.map(({ fault }) => fault))]
  return kinds.map((kind) => {
    const own = rounds.filter(({ fault }) => fault === kind)
    const slowest = Math.max(...own.map(({ slowestMs }) => slowestMs))
    const sum = (part: 'all' | 'survivors') =>
      formatErrorRate(sumTraffic(own.map((one) => one[part])))
    return [
      FAULT_DESCRIPTIONS[kind],
      String(own.length),
      sum('survivors'),
      sum('all'),
      String(Math.round(slowest)),
    ]
  })
}

function sumTraffic(parts: readonly NginxRequestAndErrorCounts[]): NginxRequestAndErrorCounts {
  const errors: Record<string, number> = {}
  for (const part of parts)
    for (const [status, count] of Object.entries(part.errors))
      errors[status] = (errors[status] ?? 0) + count
  return { requests: parts.reduce((sum, one) => sum + one.requests, 0), errors }
}
