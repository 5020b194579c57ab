import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { PAID_TOOL_BODY } from '../../chaos/station-http-client.ts'
import type { Sql } from '../../persistence/postgres/connection-pool.ts'
import { runLoadGenerator } from '../benchmark-child-processes.ts'
import { createBenchmarkReportRow, formatThousands, type BenchmarkRow } from '../benchmark-row.ts'
import type { HttpBenchServerPortsAndKeys } from './http-throughput-benchmark.ts'

/** Measures what PostgreSQL writes, keeps and works for a paid call. */

const CONNECTIONS = 64
const CALLS = 20_000
/** Writes each page once after the checkpoint, so that its full image is not counted. */
const WARM_UP_CALLS = 4_000
/** Backends report their counters at most once a second. */
const STATISTICS_MS = 2_000
const CPU_TICK_US = 10_000

interface StorageCounters {
  readonly rows: number
  readonly wal: number
  readonly kept: number
  readonly ticks: number
}

/** Reads the counters; those of CPU are zero where there is no `/proc`. */
async function readStorageCounters(sql: Sql): Promise<StorageCounters> {
  await sleep(STATISTICS_MS)
  const [row] = await sql<{ rows: number; wal: number; kept: number }[]>`
    select (select sum(n_tup_ins) from pg_stat_user_tables)::float8 as rows,
           (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as wal,
           (select sum(pg_total_relation_size(oid)) from pg_class
             where relkind = 'r' and relnamespace = 'public'::regnamespace)::float8 as kept`
  const backends = await sql<{ pid: number }[]>`select pid from pg_stat_activity`
  const ticks = backends.reduce((sum, { pid }) => sum + readCpuTicks(pid), 0)
  return { rows: row?.rows ?? 0, wal: row?.wal ?? 0, kept: row?.kept ?? 0, ticks }
}

function readCpuTicks(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return Number(fields[11]) + Number(fields[12])
  } catch {
    return 0
  }
}

/** Rows inserted, bytes of WAL and bytes kept a call, of one hot agent and spread over all. */
export async function benchmarkStoredRows(
  field: HttpBenchServerPortsAndKeys,
  sql: Sql,
): Promise<BenchmarkRow[]> {
  const rows: BenchmarkRow[] = []
  for (const agents of [1, field.keys.length]) {
    const call = (total: number) =>
      runLoadGenerator({
        port: field.station,
        path: '/api/refuel',
        keys: field.keys.slice(0, agents),
        connections: CONNECTIONS,
        body: PAID_TOOL_BODY,
        warmUpMs: 0,
        measureMs: 1,
        total,
      })
    await sql`checkpoint`
    await call(Math.max(WARM_UP_CALLS, agents))
    const before = await readStorageCounters(sql)
    const { good } = (await call(CALLS)).all
    const after = await readStorageCounters(sql)
    const perCall = (name: keyof StorageCounters) => (after[name] - before[name]) / good
    const [inserted, wal, kept] = [perCall('rows'), perCall('wal'), perCall('kept')]
    const cpu = perCall('ticks') * CPU_TICK_US
    const whose = agents === 1 ? 'one hot agent' : `${formatThousands(agents)} agents`
    rows.push(
      createBenchmarkReportRow({
        what: `what PostgreSQL stores for a paid call, ${whose}`,
        measured: `${inserted.toFixed(1)} rows, ${wal.toFixed(0)} B of WAL, ${kept.toFixed(0)} B kept`,
        baseline: `${cpu.toFixed(0)} us of its CPU`,
        result: `${inserted.toFixed(1)} rows, ${wal.toFixed(0)} B of WAL`,
        target: '<= 3 rows, 1,200 B of WAL, 1,000 B kept',
        met: inserted <= 3 && wal <= 1_200 && kept <= 1_000,
        n: `${formatThousands(good)} calls`,
      }),
    )
  }
  return rows
}
