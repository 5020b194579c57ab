import { setTimeout as sleep } from 'node:timers/promises'
import { CHAOS_PAID_TOOL_REQUEST_BODY } from '../../chaos/station-http-client.ts'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { runLoadGenerator } from '../benchmark-child-processes.ts'
import {
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  type BenchmarkRow,
} from '../benchmark-result-row.ts'
import { readCpuMicroseconds, readCpuMicrosecondsOfSiblings } from '../probes/process-usage.ts'
import type { HttpBenchServerPortsAndKeys } from './http-throughput-benchmark.ts'

/** Measures what PostgreSQL writes and keeps for a paid call, and the CPU that it and the station take. */

const CONNECTIONS = 64
const CALLS = 20_000
/** Writes each page once after the checkpoint, so that its full image is not counted. */
const WARM_UP_CALLS = 4_000
/** A backend that rests reports its last counters within ten seconds. */
const STATISTICS_MS = 11_000
const [STATION_TARGET_US, DATABASE_TARGET_US] = [150, 60]

interface CallCounters {
  readonly rows: number
  readonly wal: number
  readonly kept: number
  readonly databaseUs: number
  readonly stationUs: number
}

/**
 * Reads the counters; those of the database belong to the server with all its processes. What the queue of fees has
 * left is reused after the next autovacuum, so it is not kept.
 */
async function readCallCounters(sql: Sql, stationPid: number): Promise<CallCounters> {
  await sleep(STATISTICS_MS)
  await sql`vacuum unattested_fees`
  const [row] = await sql<{ rows: number; wal: number; kept: number }[]>`
    select (select sum(n_tup_ins) from pg_stat_user_tables)::float8 as rows,
           (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as wal,
           (select sum(pg_total_relation_size(oid)) from pg_class
             where relkind = 'r' and relnamespace = 'public'::regnamespace)::float8 as kept`
  const [backend] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
  return {
    rows: row?.rows ?? 0,
    wal: row?.wal ?? 0,
    kept: row?.kept ?? 0,
    databaseUs: readCpuMicrosecondsOfSiblings(backend?.pid ?? 0),
    stationUs: readCpuMicroseconds(stationPid),
  }
}

/** Rows, bytes and CPU a call, of one hot agent and spread over all. */
export async function benchmarkStoredRows(
  field: HttpBenchServerPortsAndKeys,
  sql: Sql,
  stationPid: number,
): Promise<BenchmarkRow[]> {
  const rows: BenchmarkRow[] = []
  for (const agents of [1, field.keys.length]) {
    const call = (total: number) =>
      runLoadGenerator({
        port: field.station,
        path: '/api/refuel',
        keys: field.keys.slice(0, agents),
        connections: CONNECTIONS,
        body: CHAOS_PAID_TOOL_REQUEST_BODY,
        warmUpMs: 0,
        measureMs: 1,
        total,
      })
    await sql`checkpoint`
    await call(Math.max(WARM_UP_CALLS, agents))
    const before = await readCallCounters(sql, stationPid)
    const { good } = (await call(CALLS)).all
    const after = await readCallCounters(sql, stationPid)
    const perCall = (name: keyof CallCounters) => (after[name] - before[name]) / good
    const whose = agents === 1 ? 'one hot agent' : `${formatWithThousandsSeparators(agents)} agents`
    rows.push(createStoredBytesRow(perCall, whose, good), createCpuRow(perCall, whose, good))
  }
  return rows
}

type PerCall = (name: keyof CallCounters) => number

function createStoredBytesRow(perCall: PerCall, whose: string, calls: number): BenchmarkRow {
  const [inserted, wal, kept] = [perCall('rows'), perCall('wal'), perCall('kept')]
  const written = `${inserted.toFixed(1)} rows, ${wal.toFixed(0)} B of WAL`
  return createBenchmarkReportRow({
    what: `what PostgreSQL stores for a paid call, ${whose}`,
    measured: `${written}, ${kept.toFixed(0)} B kept`,
    baseline: '',
    result: written,
    target: '<= 3 rows, 1,200 B of WAL, 1,000 B kept',
    met: inserted <= 3 && wal <= 1_200 && kept <= 1_000,
    n: `${formatWithThousandsSeparators(calls)} calls`,
  })
}

function createCpuRow(perCall: PerCall, whose: string, calls: number): BenchmarkRow {
  const [station, database] = [perCall('stationUs'), perCall('databaseUs')]
  const text = `station ${station.toFixed(0)} us, PostgreSQL ${database.toFixed(0)} us`
  return createBenchmarkReportRow({
    what: `CPU of a paid call over HTTP, ${whose}, ${CONNECTIONS} connections, work after the commit included`,
    measured: text,
    baseline: '',
    result: text,
    target: `<= ${STATION_TARGET_US} us, <= ${DATABASE_TARGET_US} us`,
    met: station <= STATION_TARGET_US && database <= DATABASE_TARGET_US,
    n: `${formatWithThousandsSeparators(calls)} calls`,
  })
}
