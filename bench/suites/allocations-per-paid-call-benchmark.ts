import { rmSync } from 'node:fs'
import {
  createStationHttpClient,
  CHAOS_PAID_TOOL_REQUEST_BODY,
} from '../../chaos/station-http-client.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import {
  connectToEmbeddedStationDatabase,
  createProofDataDirectory,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { runLoadGenerator } from '../benchmark-child-processes.ts'
import {
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  type BenchmarkRow,
} from '../benchmark-result-row.ts'
import { connectHeapProfiler } from '../probes/station-heap-profiler.ts'
import { seedAgents, seedApiKeys } from '../seed-agents.ts'

/** Benchmarks what the station allocates for a paid call, at a fixed rate. */

const CALLS_PER_SECOND = 300
const AGENTS = 100
const CONNECTIONS = 64
const WARM_UP_MS = 8_000
const MEASURE_MS = 20_000
const TARGET_KB = 40
const SHOWN_SITES = 8

/** Starts a station of its own: the profiler slows it down. */
export async function benchmarkGarbage(
  env: Readonly<Record<string, string>>,
): Promise<BenchmarkRow> {
  const [dataDir, port, inspectPort] = [
    createProofDataDirectory(),
    await findFreePort(),
    await findFreePort(),
  ]
  const nodeArgs = ['--max-semi-space-size=16', `--inspect=127.0.0.1:${inspectPort}`]
  const station = await spawnStationProcess({ dataDir, port, env, nodeArgs })
  const sql = connectToEmbeddedStationDatabase(dataDir)
  const client = createStationHttpClient(station.url, 1)
  const profiler = await connectHeapProfiler(inspectPort)
  try {
    const keys = await seedApiKeys(dataDir, sql, await seedAgents(client, sql, AGENTS))
    const call = (measureMs: number) =>
      runLoadGenerator({
        ...{
          port,
          path: '/api/refuel',
          body: CHAOS_PAID_TOOL_REQUEST_BODY,
          keys,
          connections: CONNECTIONS,
        },
        ...{ rate: CALLS_PER_SECOND, warmUpMs: 0, measureMs },
      })
    await call(WARM_UP_MS)
    await profiler.start()
    const load = await call(MEASURE_MS)
    const { bytes, sites } = await profiler.stop()
    if (load.failed > 0) throw new Error(`${load.failed} of ${load.answers} requests failed`)
    const kilobytes = (size: number) => size / load.all.good / 1_000
    const largest = sites
      .slice(0, SHOWN_SITES)
      .map(({ place, bytes: size }) => `${place} ${kilobytes(size).toFixed(1)}`)
    return createBenchmarkReportRow({
      what: `what the station allocates for a paid call at ${CALLS_PER_SECOND}/s over ${AGENTS} agents, by a sampling heap profile with collected objects`,
      measured: `${kilobytes(bytes).toFixed(0)} kB; the largest in kB: ${largest.join(', ')}`,
      baseline: '',
      result: `${kilobytes(bytes).toFixed(0)} kB`,
      target: `<= ${TARGET_KB} kB`,
      met: kilobytes(bytes) <= TARGET_KB,
      n: `${formatWithThousandsSeparators(load.all.good)} calls`,
    })
  } finally {
    profiler.close()
    await client.close()
    await sql.end({ timeout: 1 })
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}
