import { median } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import { CHAOS_PAID_TOOL_REQUEST_BODY } from '../../chaos/station-http-client.ts'
import type { HttpLoadPlan, HttpLoadResult } from '../http-load-generator.ts'
import { runLoadGenerator } from '../benchmark-child-processes.ts'
import {
  formatMilliseconds,
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  formatFactor,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Addresses of the contestants and the keys that call them. */
export interface HttpBenchServerPortsAndKeys {
  readonly station: number
  readonly baseline: number
  /** The least service with the same commit (`bench/minimal-paid-call-benchmark-server.ts`). */
  readonly floor: number
  /** Keys of agents of the station. */
  readonly keys: readonly string[]
  /** Account numbers of the baseline and of the floor, one per key. */
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
export async function runLoadPlansInRotation(
  plans: readonly Omit<HttpLoadPlan, 'warmUpMs' | 'measureMs' | 'body'>[],
  { rounds, warmUpMs, measureMs }: BenchmarkScale,
): Promise<ContestantResult[]> {
  const results = plans.map(() => [] as HttpLoadResult[])
  for (let at = 0; at < rounds; at++) {
    for (const [contestant, plan] of plans.entries()) {
      const result = await runLoadGenerator({
        ...plan,
        body: CHAOS_PAID_TOOL_REQUEST_BODY,
        warmUpMs,
        measureMs,
      })
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
  `${formatWithThousandsSeparators(rate)}/s, p50 ${formatMilliseconds(p50)}, p99 ${formatMilliseconds(p99)}`

export const stationLoadPlan = (field: HttpBenchServerPortsAndKeys, agents: number) => ({
  port: field.station,
  path: '/api/refuel',
  keys: field.keys.slice(0, agents),
  connections: CONNECTIONS,
})
const baselineLoadPlan = (field: HttpBenchServerPortsAndKeys, agents: number) => ({
  ...stationLoadPlan(field, agents),
  port: field.baseline,
  keys: field.accounts.slice(0, agents),
})
export const floorLoadPlan = (field: HttpBenchServerPortsAndKeys, agents: number) => ({
  ...baselineLoadPlan(field, agents),
  port: field.floor,
})
const echoLoadPlan = (field: HttpBenchServerPortsAndKeys) => ({
  ...baselineLoadPlan(field, 1),
  path: '/echo',
})

/** The row that compares the station with the least service that makes the same promises. */
function createFloorRow(
  what: string,
  ours: ContestantResult,
  floor: ContestantResult,
  n: string,
): BenchmarkRow {
  const share = ours.rate / floor.rate
  return createBenchmarkReportRow({
    what: `${what}, against the least service with the same commit`,
    measured: formatContestant(ours),
    baseline: formatContestant(floor),
    result: formatFactor(share),
    target: '>= 0.75x',
    met: share >= 0.75,
    n,
  })
}

/** Calls of one agent, compared with the naive transaction, the floor and a route that does nothing. */
export async function benchmarkHotAgent(
  field: HttpBenchServerPortsAndKeys,
  scale: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const [ours, theirs, floor, bare] = (await runLoadPlansInRotation(
    [
      stationLoadPlan(field, 1),
      baselineLoadPlan(field, 1),
      floorLoadPlan(field, 1),
      echoLoadPlan(field),
    ],
    scale,
  )) as [ContestantResult, ContestantResult, ContestantResult, ContestantResult]
  const n = `${scale.rounds} rounds, ${formatWithThousandsSeparators(ours.answers)} calls`
  const [ratio, share] = [ours.rate / theirs.rate, ours.rate / bare.rate]
  const what = 'paid call over HTTP, one hot agent, 64 connections'
  return [
    createBenchmarkReportRow({
      what: `${what}, against the naive transaction`,
      measured: formatContestant(ours),
      baseline: formatContestant(theirs),
      result: formatFactor(ratio),
      target: '>= 5x, p99 lower',
      met: ratio >= 5 && ours.p99 < theirs.p99,
      n,
    }),
    createFloorRow(what, ours, floor, n),
    createBenchmarkReportRow({
      what: 'the same hot call against a bare Fastify route that parses and echoes the body',
      measured: formatContestant(ours),
      baseline: formatContestant(bare),
      result: formatFactor(share),
      target: '>= 0.2x',
      met: share >= 0.2,
      n,
    }),
  ]
}

/** The same calls spread over many agents that are already in memory. */
export async function benchmarkManyAgents(
  field: HttpBenchServerPortsAndKeys,
  scale: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const agents = field.keys.length
  // The first call of each agent loads it from the database and is not measured.
  await runLoadGenerator({
    ...stationLoadPlan(field, agents),
    body: CHAOS_PAID_TOOL_REQUEST_BODY,
    warmUpMs: 0,
    measureMs: 1,
    total: agents,
  })
  const [ours, theirs, floor] = (await runLoadPlansInRotation(
    [stationLoadPlan(field, agents), baselineLoadPlan(field, agents), floorLoadPlan(field, agents)],
    scale,
  )) as [ContestantResult, ContestantResult, ContestantResult]
  const ratio = ours.rate / theirs.rate
  const what = `the same over ${formatWithThousandsSeparators(agents)} agents, warm`
  const n = `${scale.rounds} rounds, ${formatWithThousandsSeparators(ours.answers)} calls`
  return [
    createBenchmarkReportRow({
      what: `${what}, against the naive transaction`,
      measured: formatContestant(ours),
      baseline: formatContestant(theirs),
      result: formatFactor(ratio),
      target: '>= 2x, p99 lower',
      met: ratio >= 2 && ours.p99 < theirs.p99,
      n,
    }),
    createFloorRow(what, ours, floor, n),
  ]
}

const CALLS_PER_SECOND = 300
const PACED_AGENTS = 100

/** The tool returns at once, so the latency at a fixed rate is the station's own. */
export async function benchmarkSteadyLatency(
  field: HttpBenchServerPortsAndKeys,
  scale: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const [ours, theirs, floor, bare] = (await runLoadPlansInRotation(
    [
      { ...stationLoadPlan(field, PACED_AGENTS), rate: CALLS_PER_SECOND },
      { ...baselineLoadPlan(field, PACED_AGENTS), rate: CALLS_PER_SECOND },
      { ...floorLoadPlan(field, PACED_AGENTS), rate: CALLS_PER_SECOND },
      { ...echoLoadPlan(field), rate: CALLS_PER_SECOND },
    ],
    scale,
  )) as [ContestantResult, ContestantResult, ContestantResult, ContestantResult]
  const percentiles = ({ p50, p99 }: ContestantResult) =>
    `p50 ${formatMilliseconds(p50)}, p99 ${formatMilliseconds(p99)}`
  const others = { 'naive transaction': theirs, floor, 'bare route': bare }
  return [
    createBenchmarkReportRow({
      what: `latency at ${CALLS_PER_SECOND} paid calls/s over ${PACED_AGENTS} agents, open loop`,
      measured: percentiles(ours),
      baseline: Object.entries(others)
        .map(([name, result]) => `${name}: ${percentiles(result)}`)
        .join('; '),
      result: percentiles(ours),
      target: "p50 <= 2 ms, p99 <= the naive transaction's",
      met: ours.p50 <= 2 && ours.p99 <= theirs.p99,
      n: `${scale.rounds} rounds, ${formatWithThousandsSeparators(ours.answers)} calls`,
    }),
  ]
}
