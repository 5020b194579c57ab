import { median } from '../../chaos/statistics-and-table-columns.ts'
import { PAID_TOOL_BODY } from '../../chaos/station-http-client.ts'
import type { HttpLoadPlan, HttpLoadResult } from '../http-load-generator.ts'
import { runLoadGenerator } from '../benchmark-child-processes.ts'
import {
  formatMilliseconds,
  createBenchmarkRow,
  formatThousands,
  formatFactor,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-row.ts'

/** Addresses of the contestants and the keys that call them. */
export interface HttpBenchTargets {
  readonly station: number
  readonly baseline: number
  /** Keys of agents of the station. */
  readonly keys: readonly string[]
  /** Account numbers of the baseline, one per key. */
  readonly accounts: readonly string[]
}

const CONNECTIONS = 64

interface ContestantResult {
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly answers: number
  readonly failed: number
}

/**
 * Runs the contestants in rotation, so that a busy period of the machine affects all of them;
 * returns medians.
 */
export async function runContestantsByTurns(
  plans: readonly Omit<HttpLoadPlan, 'warmUpMs' | 'measureMs' | 'body'>[],
  { rounds, warmUpMs, measureMs }: BenchmarkScale,
): Promise<ContestantResult[]> {
  const results = plans.map(() => [] as HttpLoadResult[])
  for (let at = 0; at < rounds; at++) {
    for (const [contestant, plan] of plans.entries()) {
      const result = await runLoadGenerator({ ...plan, body: PAID_TOOL_BODY, warmUpMs, measureMs })
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

const formatContestant = ({ rate, p50, p99 }: ContestantResult): string =>
  `${formatThousands(rate)}/s, p50 ${formatMilliseconds(p50)}, p99 ${formatMilliseconds(p99)}`

const stationPlan = (field: HttpBenchTargets, agents: number) => ({
  port: field.station,
  path: '/api/refuel',
  keys: field.keys.slice(0, agents),
  connections: CONNECTIONS,
})
const baselinePlan = (field: HttpBenchTargets, agents: number) => ({
  ...stationPlan(field, agents),
  port: field.baseline,
  keys: field.accounts.slice(0, agents),
})
const echoPlan = (field: HttpBenchTargets) => ({ ...baselinePlan(field, 1), path: '/echo' })

/** Calls of one agent, compared with the naive transaction and with a route that does nothing. */
export async function benchmarkHotAgent(
  field: HttpBenchTargets,
  scale: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const [ours, theirs, bare] = (await runContestantsByTurns(
    [stationPlan(field, 1), baselinePlan(field, 1), echoPlan(field)],
    scale,
  )) as [ContestantResult, ContestantResult, ContestantResult]
  const n = `${scale.rounds} rounds, ${formatThousands(ours.answers)} calls`
  const [ratio, share] = [ours.rate / theirs.rate, ours.rate / bare.rate]
  return [
    createBenchmarkRow({
      what: 'paid call over HTTP, one hot agent, 64 connections, against the naive transaction',
      measured: formatContestant(ours),
      baseline: formatContestant(theirs),
      result: formatFactor(ratio),
      target: '>= 15x, p99 lower',
      met: ratio >= 15 && ours.p99 < theirs.p99,
      n,
    }),
    createBenchmarkRow({
      what: 'the same hot call against a bare Fastify route that parses and echoes the body',
      measured: formatContestant(ours),
      baseline: formatContestant(bare),
      result: formatFactor(share),
      target: '>= 0.5x',
      met: share >= 0.5,
      n,
    }),
  ]
}

/** The same calls spread over many agents that are already in memory. */
export async function benchmarkManyAgents(
  field: HttpBenchTargets,
  scale: BenchmarkScale,
): Promise<BenchmarkRow> {
  const agents = field.keys.length
  // The first call of each agent loads it from the database and is not measured.
  await runLoadGenerator({
    ...stationPlan(field, agents),
    body: PAID_TOOL_BODY,
    warmUpMs: 0,
    measureMs: 1,
    total: agents,
  })
  const [ours, theirs] = (await runContestantsByTurns(
    [stationPlan(field, agents), baselinePlan(field, agents)],
    scale,
  )) as [ContestantResult, ContestantResult]
  const ratio = ours.rate / theirs.rate
  return createBenchmarkRow({
    what: `the same over ${formatThousands(agents)} agents, warm`,
    measured: formatContestant(ours),
    baseline: formatContestant(theirs),
    result: formatFactor(ratio),
    target: '>= 2x',
    met: ratio >= 2,
    n: `${scale.rounds} rounds, ${formatThousands(ours.answers)} calls`,
  })
}

const CALLS_PER_SECOND = 300

/** The tool returns at once, so the latency at a fixed rate is the station's own. */
export async function benchmarkSteadyLatency(
  field: HttpBenchTargets,
  scale: BenchmarkScale,
): Promise<BenchmarkRow> {
  const paced = { ...stationPlan(field, 100), rate: CALLS_PER_SECOND }
  const [ours, bare] = (await runContestantsByTurns(
    [paced, { ...echoPlan(field), rate: CALLS_PER_SECOND }],
    scale,
  )) as [ContestantResult, ContestantResult]
  return createBenchmarkRow({
    what: `latency added at ${CALLS_PER_SECOND} paid calls/s over 100 agents, open loop`,
    measured: `p50 ${formatMilliseconds(ours.p50)}, p99 ${formatMilliseconds(ours.p99)}`,
    baseline: `bare route: p50 ${formatMilliseconds(bare.p50)}, p99 ${formatMilliseconds(bare.p99)}`,
    result: `p50 ${formatMilliseconds(ours.p50)}, p99 ${formatMilliseconds(ours.p99)}`,
    target: 'p50 <= 3 ms, p99 <= 15 ms',
    met: ours.p50 <= 3 && ours.p99 <= 15,
    n: `${scale.rounds} rounds, ${formatThousands(ours.answers)} calls`,
  })
}
