import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { findFreePort } from '../../chaos/free-port.ts'
import {
  alignColumns,
  loadAverage,
  median,
} from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import { createStationHttpClient } from '../../chaos/station-http-client.ts'
import {
  connectToEmbeddedStationDatabase,
  createProofDataDirectory,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { verifyDatabaseInvariants } from '../../persistence/verify/verify-database-invariants.ts'
import { startLocalBase } from '../../test/support/chain/local-chain.ts'
import { createFundedBenchmarkPayers } from '../benchmark-payer-wallets.ts'
import {
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  type BenchmarkRow,
} from '../benchmark-result-row.ts'
import { seedAgents, seedApiKeys } from '../seed-agents.ts'
import { readResidentMegabytes } from '../probes/process-usage.ts'
import { startSoakLoad, type SoakWorkCounts } from '../soak/soak-load.ts'
import { prepareSoakWorks, startSoakReceiver } from '../soak/soak-work-kinds.ts'
import { readStationMetrics, type StationMetrics } from '../soak/station-metrics.ts'
import { findTableGrowth, readTableSizes, type TableGrowth } from '../soak/table-growth.ts'

/** A mixed load for some minutes: memory and event loop each minute, then the growth of each table. */

const AGENTS = 500
const CONNECTIONS = 64
const ETHER = 10n ** 18n
const MINUTE_MS = 60_000
/** Memory counts from here on: caches and the optimized code have their size by then. */
const WARM_MINUTES = 5
/** A shorter run is read this often, so that it shows something. */
const MIN_READINGS = 5
/** Resident memory rises and falls with each collection, so that one reading a minute says little. */
const RESIDENT_INTERVAL_MS = 1_000
const LOOP_TARGET_MS = 20
/** The last readings may be this much above those after the fifth minute. */
const MAX_MEMORY_GROWTH = 1.1

export async function benchmarkSoak(
  env: Readonly<Record<string, string>>,
  minutes: number,
): Promise<BenchmarkRow> {
  const closing: (() => unknown)[] = []
  try {
    return await runSoak(env, minutes, (close) => void closing.push(close))
  } finally {
    for (const close of closing.reverse()) await close()
  }
}

async function runSoak(
  env: Readonly<Record<string, string>>,
  minutes: number,
  later: (close: () => unknown) => void,
): Promise<BenchmarkRow> {
  const base = await startLocalBase()
  later(base.stop)
  const [settlerKey, treasuryKey] = [generatePrivateKey(), generatePrivateKey()]
  const treasury = privateKeyToAccount(treasuryKey).address.toLowerCase()
  await base.fund(privateKeyToAccount(settlerKey).address.toLowerCase(), 100n * ETHER)
  const payers = await createFundedBenchmarkPayers(base)
  const receiver = await startSoakReceiver()
  later(() => receiver.close())
  const [dataDir, port] = [createProofDataDirectory(), await findFreePort()]
  later(() => rmSync(dataDir, { recursive: true, force: true }))
  const operatorToken = randomBytes(24).toString('base64url')
  const station = await spawnStationProcess({
    dataDir,
    port,
    env: {
      ...env,
      OPERATOR_TOKEN: operatorToken,
      RPC_URL_BASE: base.rpcUrl,
      TREASURY_ADDRESS: treasury,
      SETTLER_PRIVATE_KEY: settlerKey,
      SSRF_ALLOW: `127.0.0.1:${receiver.port}`,
    },
    nodeArgs: ['--max-semi-space-size=16'],
  })
  later(station.stop)
  const sql = connectToEmbeddedStationDatabase(dataDir)
  later(() => sql.end({ timeout: 1 }))
  await sql`set statement_timeout = 0`
  const client = createStationHttpClient(station.url, CONNECTIONS)
  later(() => client.close())
  const keys = await seedApiKeys(dataDir, sql, await seedAgents(client, sql, AGENTS))
  const { works, close } = await prepareSoakWorks({
    ...{ url: station.url, client, keys, receiver, payers, treasury },
  })
  later(close)

  const before = await readTableSizes(sql)
  const read = () => readStationMetrics(station.url, operatorToken, station.pid)
  await read()
  const load = startSoakLoad(works)
  const readings = await readWhileRunning(minutes, station.pid, read)
  const counts = await load.stop()
  const growth = findTableGrowth(before, await readTableSizes(sql))
  printCounts(counts)
  printGrowth(growth, minutes)
  console.log(
    `webhook deliveries received: ${formatWithThousandsSeparators(receiver.deliveryCounts.size)}`,
  )
  const broken = (await verifyDatabaseInvariants(sql)).filter((one) => one.broken.length > 0)
  for (const { rule, broken: rows } of broken)
    console.log(`BROKEN ${rule}: ${JSON.stringify(rows)}`)
  return createSoakRow(minutes, readings, counts, growth, broken.length)
}

/** Reads and prints the figures of each minute until the end; resident memory is the median of its seconds. */
async function readWhileRunning(
  minutes: number,
  pid: number,
  read: () => Promise<StationMetrics>,
): Promise<StationMetrics[]> {
  const interval = Math.min(MINUTE_MS, (minutes * MINUTE_MS) / MIN_READINGS)
  const count = Math.round((minutes * MINUTE_MS) / interval)
  const readings: StationMetrics[] = []
  const begunAt = performance.now()
  for (let at = 1; at <= count; at++) {
    const resident = await readResidentUntil(pid, begunAt + at * interval)
    const one = { ...(await read()), residentMegabytes: median(resident) }
    readings.push(one)
    console.log(
      `${((at * interval) / MINUTE_MS).toFixed(1).padStart(5)} min  RSS ${one.residentMegabytes} MB (${Math.min(...resident)} to ${Math.max(...resident)}), heap ${one.heapMegabytes} MB, event loop p99 ${one.loopP99Ms.toFixed(1)} ms, max ${one.loopMaxMs.toFixed(0)} ms, load ${loadAverage()}`,
    )
  }
  return readings
}

/** Resident megabytes each second until an instant of `performance.now()`; at least one. */
async function readResidentUntil(pid: number, end: number): Promise<number[]> {
  const found = [readResidentMegabytes(pid)]
  for (;;) {
    const rest = end - performance.now()
    if (rest <= 0) return found
    await pause(Math.min(RESIDENT_INTERVAL_MS, rest))
    found.push(readResidentMegabytes(pid))
  }
}

function printCounts(counts: readonly SoakWorkCounts[]): void {
  const rows = counts.map(({ name, done, failed, skipped, firstError }) => [
    name,
    `${formatWithThousandsSeparators(done)} done`,
    `${failed} failed`,
    `${skipped} skipped`,
    firstError ?? '',
  ])
  console.log(alignColumns(rows))
}

function printGrowth(growth: readonly TableGrowth[], minutes: number): void {
  const rows = growth.map(({ table, rows: now, rowsBefore, bytes, bytesBefore, retention }) => [
    table,
    `${formatWithThousandsSeparators(now - rowsBefore)} rows`,
    `${formatWithThousandsSeparators((bytes - bytesBefore) / 1_024)} KiB`,
    `${formatWithThousandsSeparators((bytes - bytesBefore) / 1_024 / minutes)} KiB/min`,
    retention ?? 'NOT IN docs/retention.md',
  ])
  console.log(alignColumns([['table', 'added', 'grown', 'a minute', 'docs/retention.md'], ...rows]))
}

const memoryOf = (
  readings: readonly StationMetrics[],
  name: 'residentMegabytes' | 'heapMegabytes',
) => median(readings.map((reading) => reading[name]))

function createSoakRow(
  minutes: number,
  readings: readonly StationMetrics[],
  counts: readonly SoakWorkCounts[],
  growth: readonly TableGrowth[],
  broken: number,
): BenchmarkRow {
  const isLong = minutes > WARM_MINUTES + 2
  const warm = isLong ? readings.slice(WARM_MINUTES) : readings
  const [early, late] = [
    warm.slice(0, Math.ceil(warm.length / 3)),
    warm.slice(-Math.ceil(warm.length / 3)),
  ]
  const memory = (name: 'residentMegabytes' | 'heapMegabytes') =>
    `${memoryOf(early, name)} -> ${memoryOf(late, name)} MB`
  const isFlat =
    memoryOf(late, 'residentMegabytes') <= memoryOf(early, 'residentMegabytes') * MAX_MEMORY_GROWTH
  const loopP99 = Math.max(...warm.map((reading) => reading.loopP99Ms))
  const failed = counts.reduce((sum, one) => sum + one.failed + one.skipped, 0)
  const unnamed = growth.filter((one) => one.retention === null).map(({ table }) => table)
  const done = counts.reduce((sum, one) => sum + one.done, 0)
  const loop = `event loop p99 at most ${loopP99.toFixed(1)} ms in a minute`
  return createBenchmarkReportRow({
    what: `mixed load of ${counts.length} kinds for ${minutes} minutes`,
    measured: `${formatWithThousandsSeparators(done)} done, ${failed} failed or skipped; RSS ${memory('residentMegabytes')}, heap ${memory('heapMegabytes')} (medians of the first and last third${isLong ? ` after minute ${WARM_MINUTES}` : ''}); ${loop}; ${broken} invariants broken; tables that grew and are not in docs/retention.md: ${unnamed.length === 0 ? 'none' : unnamed.join(', ')}`,
    baseline: '',
    result: `RSS ${memory('residentMegabytes')}, ${loop}`,
    target: `flat after minute ${WARM_MINUTES} (10 %), <= ${LOOP_TARGET_MS} ms, only what docs/retention.md names`,
    met: isLong && isFlat && loopP99 <= LOOP_TARGET_MS && failed + broken + unnamed.length === 0,
    n: `${formatWithThousandsSeparators(done)} requests`,
  })
}
