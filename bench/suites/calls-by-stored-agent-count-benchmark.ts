import { rmSync } from 'node:fs'
import {
  createStationHttpClient,
  CHAOS_PAID_TOOL_REQUEST_BODY,
} from '../../chaos/station-http-client.ts'
import {
  createProofDataDirectory,
  connectToEmbeddedStationDatabase,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import { runLoadPlansInRotation } from './http-throughput-benchmark.ts'
import { seedApiKeys, seedAgents } from '../seed-agents.ts'
import { runLoadGenerator } from '../benchmark-child-processes.ts'
import {
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  formatFactor,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Benchmarks calls while the table of agents is small and while it is large. */

const CALLED = 1_000
const CHUNK = 100_000

interface BenchStation {
  readonly port: number
  readonly keys: readonly string[]
  close(): Promise<void>
}

/** Starts a station over a new database with this number of agents; `CALLED` of them are called. */
async function startBenchStation(
  stored: number,
  env: Readonly<Record<string, string>>,
): Promise<BenchStation> {
  const [dataDir, port] = [createProofDataDirectory(), await findFreePort()]
  const station = await spawnStationProcess({ dataDir, port, env })
  const [sql, client] = [
    connectToEmbeddedStationDatabase(dataDir),
    createStationHttpClient(station.url, 1),
  ]
  await sql`set statement_timeout = 0`
  const ids = await seedAgents(client, sql, CALLED)
  for (let have = CALLED; have < stored; have += CHUNK) {
    await seedAgents(client, sql, Math.min(CHUNK, stored - have))
  }
  const keys = await seedApiKeys(dataDir, sql, ids)
  await sql`checkpoint`
  return {
    port,
    keys,
    async close() {
      await client.close()
      await sql.end({ timeout: 1 })
      await station.stop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** The same calls to the same number of agents, in a small table and in a large one. */
export async function benchmarkStoredAgents(
  stored: number,
  env: Readonly<Record<string, string>>,
  scale: BenchmarkScale,
): Promise<BenchmarkRow> {
  const [few, many] = [await startBenchStation(CALLED, env), await startBenchStation(stored, env)]
  try {
    const plans = [many, few].map(({ port, keys }) => ({
      port,
      keys,
      path: '/api/refuel',
      connections: 64,
    }))
    for (const plan of plans)
      await runLoadGenerator({
        ...plan,
        body: CHAOS_PAID_TOOL_REQUEST_BODY,
        warmUpMs: 0,
        measureMs: 1,
        total: CALLED,
      })
    const [large, small] = await runLoadPlansInRotation(plans, scale)
    const ratio = (large?.rate ?? 0) / (small?.rate ?? 1)
    return createBenchmarkReportRow({
      what: `calls of ${formatWithThousandsSeparators(CALLED)} agents with ${formatWithThousandsSeparators(stored)} stored against ${formatWithThousandsSeparators(CALLED)} stored`,
      measured: `${formatWithThousandsSeparators(large?.rate ?? 0)}/s`,
      baseline: `${formatWithThousandsSeparators(small?.rate ?? 0)}/s`,
      result: formatFactor(ratio),
      target: '>= 0.8x',
      met: ratio >= 0.8,
      n: `${scale.rounds} rounds, ${formatWithThousandsSeparators(large?.answers ?? 0)} calls`,
    })
  } finally {
    await many.close()
    await few.close()
  }
}
