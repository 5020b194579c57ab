import { rmSync } from 'node:fs'
import {
  apiKeyHeader,
  createStationClient,
  expectAccepted,
  onboardAgents,
  PAID_TOOL_BODY,
} from '../../chaos/station-http-client.ts'
import { median } from '../../chaos/quantiles-machine-info-and-text-tables.ts'
import { createDataDirectory, spawnStationProcess } from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import { createBenchmarkReportRow, type BenchmarkRow } from '../benchmark-row.ts'

/** Benchmarks the time from process start to the first paid call. */

/** Time from process start to the response of the first paid call. */
async function firstCall(dataDir: string): Promise<number> {
  const port = await findFreePort()
  const startedAt = performance.now()
  const station = await spawnStationProcess({ dataDir, port })
  const client = createStationClient(station.url, 1)
  try {
    const [agent] = await onboardAgents(client, 1)
    if (agent === undefined) throw new Error('no agent was made')
    await expectAccepted(client.send('POST', '/api/refuel', apiKeyHeader(agent), PAID_TOOL_BODY))
    return performance.now() - startedAt
  } finally {
    await client.close()
    await station.stop()
  }
}

/** Cold starts with an empty data directory and create the database; warm starts reuse it. */
export async function benchmarkStartup(rounds: number): Promise<BenchmarkRow> {
  const [cold, warm] = [[] as number[], [] as number[]]
  for (let at = 0; at < rounds; at++) {
    const dataDir = createDataDirectory()
    try {
      cold.push(await firstCall(dataDir))
      warm.push(await firstCall(dataDir))
    } finally {
      rmSync(dataDir, { recursive: true, force: true })
    }
  }
  const seconds = (of: readonly number[]) => (median(of) / 1000).toFixed(2)
  return createBenchmarkReportRow({
    what: 'start of the built service to the answer of the first paid call, onboarding included',
    measured: `cold ${seconds(cold)} s, warm ${seconds(warm)} s`,
    baseline: '',
    result: `cold ${seconds(cold)} s, warm ${seconds(warm)} s`,
    target: 'cold <= 5 s, warm <= 1.5 s',
    met: median(cold) <= 5_000 && median(warm) <= 1_500,
    n: `${rounds} rounds`,
  })
}
