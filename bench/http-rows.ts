import { median } from '../scripts/prove/figures.ts'
import { PAID } from '../scripts/prove/agents.ts'
import type { LoadPlan, LoadResult } from './load.ts'
import { drive } from './processes.ts'
import { ms, row, thousands, times, type Row, type Scale } from './rows.ts'

/** Where the contestants listen, and who calls. */
export interface Field {
  readonly station: number
  readonly baseline: number
  /** Keys of agents of the station. */
  readonly keys: readonly string[]
  /** The accounts of the baseline: as many, by number. */
  readonly accounts: readonly string[]
}

const CONNECTIONS = 64

interface Contest {
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly answers: number
  readonly failed: number
}

/** Runs the contestants by turns, so that a busy moment of the machine hits them all; medians. */
export async function contest(
  plans: readonly Omit<LoadPlan, 'warmUpMs' | 'measureMs' | 'body'>[],
  { rounds, warmUpMs, measureMs }: Scale,
): Promise<Contest[]> {
  const results = plans.map(() => [] as LoadResult[])
  for (let at = 0; at < rounds; at++) {
    for (const [contestant, plan] of plans.entries()) {
      const result = await drive({ ...plan, body: PAID, warmUpMs, measureMs })
      if (result.failed > 0)
        throw new Error(`${result.failed} of ${result.answers} requests failed`)
      results[contestant]?.push(result)
    }
  }
  return results.map((of) => ({
    rate: median(of.map(({ rate }) => rate)),
    p50: median(of.map(({ p50 }) => p50)),
    p99: median(of.map(({ p99 }) => p99)),
    answers: of.reduce((sum, { answers }) => sum + answers, 0),
    failed: 0,
  }))
}

const said = ({ rate, p50, p99 }: Contest): string =>
  `${thousands(rate)}/s, p50 ${ms(p50)}, p99 ${ms(p99)}`

const paid = (field: Field, agents: number) => ({
  port: field.station,
  path: '/api/refuel',
  keys: field.keys.slice(0, agents),
  connections: CONNECTIONS,
})
const naive = (field: Field, agents: number) => ({
  ...paid(field, agents),
  port: field.baseline,
  keys: field.accounts.slice(0, agents),
})
const echo = (field: Field) => ({ ...naive(field, 1), path: '/echo' })

/** One hot agent against the naive transaction and against a route that does nothing. */
export async function hotRows(field: Field, scale: Scale): Promise<Row[]> {
  const [ours, theirs, bare] = (await contest(
    [paid(field, 1), naive(field, 1), echo(field)],
    scale,
  )) as [Contest, Contest, Contest]
  const n = `${scale.rounds} rounds, ${thousands(ours.answers)} calls`
  const [ratio, share] = [ours.rate / theirs.rate, ours.rate / bare.rate]
  return [
    row({
      what: 'paid call over HTTP, one hot agent, 64 connections, against the naive transaction',
      measured: said(ours),
      baseline: said(theirs),
      result: times(ratio),
      target: '>= 15x, p99 lower',
      met: ratio >= 15 && ours.p99 < theirs.p99,
      n,
    }),
    row({
      what: 'the same hot call against a bare Fastify route that parses and echoes the body',
      measured: said(ours),
      baseline: said(bare),
      result: times(share),
      target: '>= 0.5x',
      met: share >= 0.5,
      n,
    }),
  ]
}

/** The same calls spread over many agents that are in memory already. */
export async function spreadRow(field: Field, scale: Scale): Promise<Row> {
  const agents = field.keys.length
  // Each agent's first call reads it from the database: not what is measured here.
  await drive({ ...paid(field, agents), body: PAID, warmUpMs: 0, measureMs: 1, total: agents })
  const [ours, theirs] = (await contest([paid(field, agents), naive(field, agents)], scale)) as [
    Contest,
    Contest,
  ]
  const ratio = ours.rate / theirs.rate
  return row({
    what: `the same over ${thousands(agents)} agents, warm`,
    measured: said(ours),
    baseline: said(theirs),
    result: times(ratio),
    target: '>= 2x',
    met: ratio >= 2,
    n: `${scale.rounds} rounds, ${thousands(ours.answers)} calls`,
  })
}

const PACE = 300

/** At a steady pace of calls the tool takes no time: what is left is the station's own. */
export async function latencyRow(field: Field, scale: Scale): Promise<Row> {
  const paced = { ...paid(field, 100), rate: PACE }
  const [ours, bare] = (await contest([paced, { ...echo(field), rate: PACE }], scale)) as [
    Contest,
    Contest,
  ]
  return row({
    what: `latency added at ${PACE} paid calls/s over 100 agents, open loop`,
    measured: `p50 ${ms(ours.p50)}, p99 ${ms(ours.p99)}`,
    baseline: `bare route: p50 ${ms(bare.p50)}, p99 ${ms(bare.p99)}`,
    result: `p50 ${ms(ours.p50)}, p99 ${ms(ours.p99)}`,
    target: 'p50 <= 3 ms, p99 <= 15 ms',
    met: ours.p50 <= 3 && ours.p99 <= 15,
    n: `${scale.rounds} rounds, ${thousands(ours.answers)} calls`,
  })
}
