import type { ClusterProof, ClusterRound, Traffic } from './cluster.ts'
import { columns, load } from './figures.ts'

export const CLUSTER_HEAD =
  'round  trouble   after ms  asked  answered  slowest ms  survivors: errors of requests  load'

/** A round under that head. */
export function clusterLine(round: ClusterRound, at: number): string {
  const cells = [
    [at, 5],
    [round.trouble, 8],
    [round.afterMs, 8],
    [round.asked, 5],
    [round.answered, 8],
    [Math.round(round.slowestMs), 10],
    [told(round.survivors), 30],
    [load(), 4],
  ] as const
  return cells.map(([value, width]) => String(value).padEnd(width)).join('  ')
}

const errorsIn = ({ errors }: Traffic): number =>
  Object.values(errors).reduce((sum, count) => sum + count, 0)

const byStatus = ({ errors }: Traffic): string =>
  Object.entries(errors)
    .map(([status, count]) => `${count} x ${status}`)
    .join(', ')

function told(traffic: Traffic): string {
  const statuses = byStatus(traffic)
  return `${errorsIn(traffic)} of ${traffic.requests}${statuses === '' ? '' : ` (${statuses})`}`
}

const MEANS: Readonly<Record<ClusterRound['trouble'], string>> = {
  none: 'none',
  node: 'kill -9 of a node',
  postgres: 'kill -9 of PostgreSQL',
  redis: 'kill -9 of Redis',
  flush: 'FLUSHALL',
  freeze: 'a node stopped for seconds',
  lapse: 'a node stopped for longer than its leases',
}

/** Prints what the cluster came to; false when anything is not as promised. */
export function clusterSummary({ rounds, audit, returns, complaints }: ClusterProof): boolean {
  const { signals, webhooks, slots } = audit
  const figures: [string, number, string][] = [
    ['lost', audit.lost, `of ${audit.acknowledged} answered`],
    ['double', audit.double, `of ${audit.operations} keys`],
    ['overspent in micros', audit.overspent, 'tasks, fuses, balances'],
    ['refused and charged', audit.refusedAndCharged, 'told that a limit was reached'],
    ['wrongly refused', audit.wrong, `of ${audit.operations} keys`],
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
    ['broken invariants', audit.broken.length, 'gas verify'],
    ['complaints of nginx', complaints.length, 'but for stations it could not reach'],
  ]
  console.log('\nSummary of the cluster')
  console.log(columns(figures.map(([name, count, of]) => [name, String(count), of])))
  for (const line of [...audit.broken, ...complaints, ...audit.refusals]) console.log(line)
  console.log(`\n${columns([HEAD, ...rates(rounds)])}`)
  const good = figures.every(([, count]) => count === 0)
  console.log(good ? 'proved' : 'NOT PROVED')
  return good
}

const HEAD = ['trouble', 'N', 'errors of survivors', 'errors of all', 'slowest ms']

function rates(rounds: readonly ClusterRound[]): string[][] {
  const kinds = [...new Set(rounds.map(({ trouble }) => trouble))]
  return kinds.map((kind) => {
    const own = rounds.filter(({ trouble }) => trouble === kind)
    const slowest = Math.max(...own.map(({ slowestMs }) => slowestMs))
    const sum = (part: 'all' | 'survivors') => told(added(own.map((one) => one[part])))
    return [
      MEANS[kind],
      String(own.length),
      sum('survivors'),
      sum('all'),
      String(Math.round(slowest)),
    ]
  })
}

function added(parts: readonly Traffic[]): Traffic {
  const errors: Record<string, number> = {}
  for (const part of parts)
    for (const [status, count] of Object.entries(part.errors))
      errors[status] = (errors[status] ?? 0) + count
  return { requests: parts.reduce((sum, one) => sum + one.requests, 0), errors }
}
