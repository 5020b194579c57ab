import { median } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import { CHAOS_PAID_TOOL_REQUEST_BODY } from '../../chaos/station-http-client.ts'
import { runLoadGenerator } from '../benchmark-child-processes.ts'
import {
  createBenchmarkReportRow,
  formatMilliseconds,
  formatWithThousandsSeparators,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'
import type { HttpLoadResult } from '../http-load-generator.ts'
import type { HttpBenchServerPortsAndKeys } from './http-throughput-benchmark.ts'

/** Benchmarks everybody else while one agent calls as fast as the station answers. */

const OTHERS = 100
const OTHERS_PER_SECOND = 300
const CONNECTIONS = 64
/** The hot agent starts before the measurement and ends after it. */
const LEAD_MS = 1_000
const TARGET_MS = 100

/** The same paced calls alone and beside the hot agent, in alternating runs. */
export async function benchmarkHotNeighbour(
  { station: port, keys }: HttpBenchServerPortsAndKeys,
  { rounds, warmUpMs, measureMs }: BenchmarkScale,
): Promise<BenchmarkRow> {
  const [hot = '', ...others] = keys
  const call = {
    port,
    path: '/api/refuel',
    body: CHAOS_PAID_TOOL_REQUEST_BODY,
    connections: CONNECTIONS,
  }
  const paced = { ...call, keys: others.slice(0, OTHERS), rate: OTHERS_PER_SECOND, measureMs }
  const [alone, beside, rates] = [[] as HttpLoadResult[], [] as HttpLoadResult[], [] as number[]]
  for (let at = 0; at < rounds; at++) {
    alone.push(await runLoadGenerator({ ...paced, warmUpMs }))
    const longer = { warmUpMs: warmUpMs + LEAD_MS, measureMs: measureMs + LEAD_MS }
    const [others, own] = await Promise.all([
      runLoadGenerator({ ...paced, warmUpMs: warmUpMs + LEAD_MS }),
      runLoadGenerator({ ...call, keys: [hot], ...longer }),
    ])
    beside.push(others)
    rates.push(own.rate)
  }
  const failed = [...alone, ...beside].reduce((sum, result) => sum + result.failed, 0)
  if (failed > 0) throw new Error(`${failed} calls of the others failed`)
  const p99 = middle(beside, 'p99')
  return createBenchmarkReportRow({
    what: `${OTHERS_PER_SECOND} paid calls/s over ${OTHERS} agents while one more agent calls over ${CONNECTIONS} connections without a pause, open loop`,
    measured: `p50 ${formatMilliseconds(middle(beside, 'p50'))}, p99 ${formatMilliseconds(p99)} beside ${formatWithThousandsSeparators(median(rates))}/s of the hot agent`,
    baseline: `without it: p50 ${formatMilliseconds(middle(alone, 'p50'))}, p99 ${formatMilliseconds(middle(alone, 'p99'))}`,
    result: `p99 ${formatMilliseconds(p99)}`,
    target: `p99 <= ${TARGET_MS} ms`,
    met: p99 <= TARGET_MS,
    n: `${rounds} rounds, ${formatWithThousandsSeparators(beside.reduce((sum, { answers }) => sum + answers, 0))} calls`,
  })
}

const middle = (results: readonly HttpLoadResult[], name: 'p50' | 'p99'): number =>
  median(results.map((result) => result[name]))
