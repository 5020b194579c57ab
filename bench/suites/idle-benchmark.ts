import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import {
  createProofDataDirectory,
  connectToEmbeddedStationDatabase,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { createBenchmarkReportRow, type BenchmarkRow } from '../benchmark-result-row.ts'
import { readCpuMicroseconds, readResidentMegabytes } from '../probes/process-usage.ts'

/** Benchmarks what a station costs that nobody calls. */

/** After the start: all schemas are compiled, at most ten a second, and the heap has settled. */
const SETTLE_MS = 240_000
const MEASURE_SECONDS = 60
const CPU_TARGET_MS = 5
const TRANSACTIONS_TARGET = 2

/** CPU milliseconds a second, and transactions a second, of a new station without requests. */
export async function benchmarkIdleStation(
  env: Readonly<Record<string, string>>,
): Promise<BenchmarkRow> {
  const dataDir = createProofDataDirectory()
  const station = await spawnStationProcess({ dataDir, port: await findFreePort(), env })
  const sql = connectToEmbeddedStationDatabase(dataDir, 1)
  try {
    await pause(SETTLE_MS)
    const before = { cpu: readCpuMicroseconds(station.pid), commits: await countTransactions(sql) }
    await pause(MEASURE_SECONDS * 1_000)
    // The second count is one of the transactions itself.
    const commits = (await countTransactions(sql)) - before.commits - 1
    const cpu = (readCpuMicroseconds(station.pid) - before.cpu) / 1_000 / MEASURE_SECONDS
    const rate = commits / MEASURE_SECONDS
    const text = `${cpu.toFixed(1)} ms of CPU and ${rate.toFixed(1)} transactions a second`
    return createBenchmarkReportRow({
      what: 'a station that nobody calls',
      measured: `${text}, RSS ${readResidentMegabytes(station.pid)} MB`,
      baseline: '',
      result: text,
      target: `<= ${CPU_TARGET_MS} ms, <= ${TRANSACTIONS_TARGET} transactions`,
      met: cpu <= CPU_TARGET_MS && rate <= TRANSACTIONS_TARGET,
      n: `${MEASURE_SECONDS} s`,
    })
  } finally {
    await sql.end({ timeout: 1 })
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function countTransactions(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: bigint }[]>`
    select xact_commit + xact_rollback as count from pg_stat_database
     where datname = current_database()`
  return Number(row?.count ?? 0n)
}
