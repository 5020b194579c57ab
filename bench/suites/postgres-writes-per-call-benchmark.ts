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
import {
  floorLoadPlan,
  stationLoadPlan,
  type HttpBenchServerPortsAndKeys,
} from './http-throughput-benchmark.ts'

/**
 * Measures what PostgreSQL writes and keeps for a paid call, and the CPU that it and the service take: of the station
 * and of the least service with the same commit, which appends no fees to a tree.
 */

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
  readonly serviceUs: number
}

/** A service, and a connection to its database. */
interface MeasuredService {
  readonly sql: Sql
  readonly pid: number
}

/**
 * Reads the counters; those of the database belong to the server with all its processes. What the queue of fees has
 * left is reused after the next autovacuum, so it is not kept.
 */
async function readCallCounters({ sql, pid }: MeasuredService): Promise<CallCounters> {
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
    serviceUs: readCpuMicroseconds(pid),
  }
}

/** Rows, bytes and CPU a call, of one hot agent and spread over all. */
export async function benchmarkStoredRows(
  field: HttpBenchServerPortsAndKeys,
  station: MeasuredService,
  floor: MeasuredService,
): Promise<BenchmarkRow[]> {
  const rows: BenchmarkRow[] = []
  for (const agents of [1, field.keys.length]) {
    const ours = await countPerCall(station, stationLoadPlan(field, agents))
    const least = await countPerCall(floor, floorLoadPlan(field, agents))
    const whose = agents === 1 ? 'one hot agent' : `${formatWithThousandsSeparators(agents)} agents`
    rows.push(createStoredBytesRow(ours, least, whose), createCpuRow(ours, least, whose))
  }
  return rows
}

/** What a call adds to the counters, work after the commit included. */
async function countPerCall(
  service: MeasuredService,
  plan: ReturnType<typeof stationLoadPlan>,
): Promise<CallCounters> {
  const call = (total: number) =>
    runLoadGenerator({
      ...plan,
      body: CHAOS_PAID_TOOL_REQUEST_BODY,
      warmUpMs: 0,
      measureMs: 1,
      total,
    })
  await service.sql`checkpoint`
  await call(Math.max(WARM_UP_CALLS, plan.keys.length))
  const before = await readCallCounters(service)
  const { good } = (await call(CALLS)).all
  const after = await readCallCounters(service)
  const perCall = (name: keyof CallCounters) => (after[name] - before[name]) / good
  return {
    rows: perCall('rows'),
    wal: perCall('wal'),
    kept: perCall('kept'),
    databaseUs: perCall('databaseUs'),
    serviceUs: perCall('serviceUs'),
  }
}

const describeStoredBytes = ({ rows, wal, kept }: CallCounters): string =>
  `${rows.toFixed(1)} rows, ${wal.toFixed(0)} B of WAL, ${kept.toFixed(0)} B kept`

function createStoredBytesRow(
  ours: CallCounters,
  floor: CallCounters,
  whose: string,
): BenchmarkRow {
  return createBenchmarkReportRow({
    what: `what PostgreSQL stores for a paid call, ${whose}`,
    measured: describeStoredBytes(ours),
    baseline: `floor ${describeStoredBytes(floor)}`,
    result: `${ours.rows.toFixed(1)} rows, ${ours.wal.toFixed(0)} B of WAL`,
    target: '<= 3 rows, 1,200 B of WAL, 1,000 B kept',
    met: ours.rows <= 3 && ours.wal <= 1_200 && ours.kept <= 1_000,
    n: `${formatWithThousandsSeparators(CALLS)} calls`,
  })
}

const describeCpu = ({ serviceUs, databaseUs }: CallCounters): string =>
  `service ${serviceUs.toFixed(0)} us, PostgreSQL ${databaseUs.toFixed(0)} us`

function createCpuRow(ours: CallCounters, floor: CallCounters, whose: string): BenchmarkRow {
  return createBenchmarkReportRow({
    what: `CPU of a paid call over HTTP, ${whose}, 64 connections, work after the commit included`,
    measured: describeCpu(ours),
    baseline: `floor ${describeCpu(floor)}`,
    result: describeCpu(ours),
    target: `<= ${STATION_TARGET_US} us, <= ${DATABASE_TARGET_US} us`,
    met: ours.serviceUs <= STATION_TARGET_US && ours.databaseUs <= DATABASE_TARGET_US,
    n: `${formatWithThousandsSeparators(CALLS)} calls`,
  })
}
