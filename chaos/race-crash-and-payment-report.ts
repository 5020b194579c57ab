import { CRASH_TARGETS, type CrashRound } from './crash-rounds.ts'
import { alignColumns, loadAverage, median } from './quantiles-host-hardware-and-text-tables.ts'
import type { OperationsLedgerComparison } from './compare-operations-with-ledger.ts'
import type {
  PaymentFaultRoundsResult,
  PaymentFaultRound,
} from './payment-fault-injection-rounds.ts'
import type { LimitRaceResult } from './limit-races.ts'

/** Results of the crash rounds and of the `gas verify` run after them. */
export interface CrashRoundsAndVerifyResult {
  readonly rounds: readonly CrashRound[]
  /** All rounds, with the retried streams. */
  readonly all: OperationsLedgerComparison
  readonly verified: boolean
}

export function formatRaceTable(races: readonly LimitRaceResult[]): string {
  const rows = races.map(
    ({ name, asked, allowed, served, overserved, wronglyRejected, faults }) => [
      name,
      ...[asked, allowed, served, overserved, wronglyRejected].map(String),
      faults.join('; '),
    ],
  )
  return alignColumns([
    ['race', 'asked', 'allowed', 'served', 'over', 'wrongly refused', ''],
    ...rows,
  ])
}

export const CRASH_TABLE_HEADER =
  'round  victim    after ms  asked  acked  unknown  lost  double  changed  recovery ms  load'

/** Formats a round as a row under the header. */
export function formatCrashRound(round: CrashRound, at: number): string {
  const cells = [
    [at, 5],
    [round.victim, 8],
    [round.afterMs, 8],
    [round.operations, 5],
    [round.acknowledged, 5],
    [round.unknown, 7],
    [round.lost, 4],
    [round.double, 6],
    [round.changed, 7],
    [Math.round(round.recoveryMs), 11],
    [loadAverage(), 4],
  ] as const
  return cells.map(([value, width]) => String(value).padEnd(width)).join('  ')
}

/** Prints the summary; returns false when a guarantee is broken. */
export function printCrashSummary(
  races: readonly LimitRaceResult[],
  { rounds, all, verified }: CrashRoundsAndVerifyResult,
): boolean {
  const total = (count: (one: LimitRaceResult) => number) =>
    races.reduce((sum, one) => sum + count(one), 0)
  const asked = total((one) => one.asked)
  const repeated = rounds.reduce((sum, one) => sum + one.replayed, 0)
  const changed = rounds.reduce((sum, one) => sum + one.changed, 0)
  const figures: [string, number, string][] = [
    ['overspent', total((one) => one.overserved), `${asked} requests in ${races.length} races`],
    [
      'wrongly refused',
      total((one) => one.wronglyRejected) + all.wronglyRejected,
      `${asked + all.operations} requests`,
    ],
    [
      'other faults',
      total((one) => one.faults.length),
      'balances, tasks, events, equal answers after a race',
    ],
    ['lost', all.lost, `${all.acknowledged} acknowledged over ${rounds.length} kills`],
    ['double', all.double, `${all.operations} keys`],
    ['changed answers', changed, `${repeated} asked again after a crash`],
    [
      'never answered',
      all.operations - all.acknowledged - all.wronglyRejected,
      `${all.operations} keys`,
    ],
    ['broken invariants', verified ? 0 : 1, 'gas verify'],
  ]
  console.log(alignColumns(figures.map(([name, count, of]) => [name, String(count), `of ${of}`])))
  for (const line of recoveryLines(rounds)) console.log(line)
  const good = figures.every(([, count]) => count === 0)
  console.log(good ? 'proved' : 'NOT PROVED')
  return good
}

const recoveryLines = (rounds: readonly CrashRound[]): string[] =>
  CRASH_TARGETS.flatMap((victim) => {
    const times = rounds.filter((one) => one.victim === victim).map((one) => one.recoveryMs)
    if (times.length === 0) return []
    const [p50, max] = [Math.round(median(times)), Math.round(Math.max(...times))]
    return [`recovery after kill -9 of ${victim}: p50 ${p50} ms, max ${max} ms, N ${times.length}`]
  })

export const PAYMENT_FAULT_ROUND_TABLE_HEADER =
  'round  trouble     after ms  asked  claimed/unsent/unseen  rest ms  open  unpaid  twice  told 402  wrong  adrift  drift  broken'

/** Formats a round as a row under the header; counts are cumulative. */
export function formatPaymentFaultRound(round: PaymentFaultRound, at: number | string): string {
  const { caught } = round
  const cells = [
    [at, 5],
    [round.trouble, 10],
    [round.afterMs, 8],
    [round.asked, 5],
    [caught === null ? '-' : `${caught.claimed}/${caught.unsent}/${caught.unseen}`, 21],
    [Math.round(round.restMs), 7],
    [round.open, 4],
    [round.unpaid, 6],
    [round.twice, 5],
    [round.told402, 8],
    [round.wronglyRejected, 5],
    [round.adrift, 6],
    [round.drift, 5],
    [formatViolations(round), 6],
  ] as const
  return cells
    .map(([value, width]) => String(value).padEnd(width))
    .join('  ')
    .trimEnd()
}

const formatViolations = ({ broken, unsettled }: PaymentFaultRound): string =>
  [...broken.map(({ rule }) => rule), ...(unsettled > 0 ? [`${unsettled} restless`] : [])].join(' ')

/** Prints the payment summary; returns false when a guarantee is broken. */
export function printPaymentFaultSummary({ rounds, last }: PaymentFaultRoundsResult): boolean {
  const headers = rounds.reduce((sum, one) => sum + one.asked, 0)
  const caught = (name: 'claimed' | 'unsent' | 'unseen') =>
    rounds.reduce((sum, one) => sum + (one.caught?.[name] ?? 0), 0)
  const broken = new Map(
    [...rounds, last].flatMap((one) => one.broken.map((it) => [it.rule, it.sample])),
  )
  const figures: [string, number, string][] = [
    ['unpaid', last.unpaid, 'answered, without one call or credit and one settlement that settled'],
    ['twice', last.twice, 'ran, credited or answered more than once'],
    ['told 402', last.told402, 'although the money moved'],
    ['wrongly refused', last.wronglyRejected, 'although nothing forbade it'],
    ['adrift', last.adrift, 'moved on the chain and not in the books, or the other way round'],
    ['drift in micros', Math.abs(Number(last.drift)), 'treasury on the chain less world:base'],
    ['never answered', headers - last.ended, 'asked until a dead claim had expired'],
    ['restless', last.unsettled, 'settlements that did not come to rest'],
    ['broken invariants', broken.size, 'gas verify after each round'],
  ]
  console.log(`\nSummary of ${headers} payments, after the last claims had expired`)
  console.log(alignColumns(figures.map(([name, count, of]) => [name, String(count), of])))
  for (const [rule, sample] of broken) console.log(`${rule}: ${sample}`)
  for (const refusal of new Set(last.refusals)) console.log(`refused: ${refusal}`)
  console.log(
    `caught by a kill: ${caught('claimed')} claimed, ${caught('unsent')} signed and not sent, ${caught('unseen')} sent and not seen`,
  )
  const restless = rounds.some((one) => one.unsettled > 0)
  const good = figures.every(([, count]) => count === 0) && !restless
  console.log(good ? 'proved' : 'NOT PROVED')
  return good
}
