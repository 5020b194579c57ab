import { VICTIMS, type Round } from './crashes.ts'
import { columns, load, median } from './figures.ts'
import type { Comparison } from './ledger.ts'
import type { Race } from './races.ts'

/** What the crash rounds came to, and what `gas verify` said after them. */
export interface Crashed {
  readonly rounds: readonly Round[]
  /** Over all rounds, the streams asked again included. */
  readonly all: Comparison
  readonly verified: boolean
}

export function raceTable(races: readonly Race[]): string {
  const rows = races.map(({ name, asked, allowed, served, over, wrong, faults }) => [
    name,
    ...[asked, allowed, served, over, wrong].map(String),
    faults.join('; '),
  ])
  return columns([['race', 'asked', 'allowed', 'served', 'over', 'wrongly refused', ''], ...rows])
}

export const CRASH_HEAD =
  'round  victim    after ms  asked  acked  unknown  lost  double  changed  recovery ms  load'

/** A round under that head. */
export function crashLine(round: Round, at: number): string {
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
    [load(), 4],
  ] as const
  return cells.map(([value, width]) => String(value).padEnd(width)).join('  ')
}

/** Prints what it all came to; false when anything is not as promised. */
export function summary(races: readonly Race[], { rounds, all, verified }: Crashed): boolean {
  const total = (count: (one: Race) => number) => races.reduce((sum, one) => sum + count(one), 0)
  const asked = total((one) => one.asked)
  const repeated = rounds.reduce((sum, one) => sum + one.replayed, 0)
  const changed = rounds.reduce((sum, one) => sum + one.changed, 0)
  const figures: [string, number, string][] = [
    ['overspent', total((one) => one.over), `${asked} requests in ${races.length} races`],
    [
      'wrongly refused',
      total((one) => one.wrong) + all.wrong,
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
    ['never answered', all.operations - all.acknowledged - all.wrong, `${all.operations} keys`],
    ['broken invariants', verified ? 0 : 1, 'gas verify'],
  ]
  console.log(columns(figures.map(([name, count, of]) => [name, String(count), `of ${of}`])))
  for (const line of recoveries(rounds)) console.log(line)
  const good = figures.every(([, count]) => count === 0)
  console.log(good ? 'proved' : 'NOT PROVED')
  return good
}

const recoveries = (rounds: readonly Round[]): string[] =>
  VICTIMS.flatMap((victim) => {
    const times = rounds.filter((one) => one.victim === victim).map((one) => one.recoveryMs)
    if (times.length === 0) return []
    const [p50, max] = [Math.round(median(times)), Math.round(Math.max(...times))]
    return [`recovery after kill -9 of ${victim}: p50 ${p50} ms, max ${max} ms, N ${times.length}`]
  })
