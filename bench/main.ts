import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Sql } from '../persistence/postgres/connection-pool.ts'
import { createStationClient } from '../chaos/station-http-client.ts'
import { loadAverage, describeMachine } from '../chaos/statistics-and-table-columns.ts'
import {
  buildStation,
  createDataDirectory,
  openEmbeddedDatabase,
  spawnStationProcess,
  type StationProcess,
} from '../chaos/station-process.ts'
import { findFreePort } from '../chaos/free-port.ts'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'
import { benchmarkSandboxFairness } from './suites/sandbox-fairness-benchmark.ts'
import { benchmarkHiveSearch } from './suites/hive-search-benchmark.ts'
import {
  benchmarkHotAgent,
  benchmarkSteadyLatency,
  benchmarkManyAgents,
  type HttpBenchTargets,
} from './suites/http-throughput-benchmark.ts'
import { benchmarkDiskFlush, benchmarkMemoryPerAgent } from './suites/in-process-costs-benchmark.ts'
import { benchmarkPageParsing } from './suites/page-parsing-benchmark.ts'
import { benchmarkPayments } from './suites/payments-benchmark.ts'
import { seedApiKeys, seedAgents } from './seed-agents.ts'
import { spawnChildProgram } from './benchmark-child-processes.ts'
import { renderBenchmarkResults } from './results-document.ts'
import type { BenchmarkRow, BenchmarkScale } from './benchmark-row.ts'
import { benchmarkSandbox } from './suites/sandbox-benchmark.ts'
import { benchmarkSearchRecall } from './suites/search-recall-benchmark.ts'
import { benchmarkWebSockets } from './suites/websockets-benchmark.ts'
import { benchmarkStartup } from './suites/startup-benchmark.ts'
import { benchmarkStoredAgents } from './suites/stored-agents-benchmark.ts'

/** Runs the benchmarks and writes `bench/results.md`. */

const GROUPS = [
  'start',
  'hot',
  'spread',
  'latency',
  'inside',
  'memory',
  'stored',
  'payments',
  'sockets',
  'hive',
  'search',
  'sandbox',
  'sandbox-fairness',
  'pages',
] as const
type Group = (typeof GROUPS)[number]
/** Groups that share one station and one baseline. */
const STATION_GROUPS: readonly Group[] = ['hot', 'spread', 'latency', 'inside', 'memory']

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    /** Runs only these groups and writes no file. */
    only: { type: 'string', multiple: true },
    /** Agents stored for the row that compares a large table with a small one; 0 skips it. */
    stored: { type: 'string', default: '1000000' },
  },
})
/** Groups that need no station. */
const WITHOUT_STATION: readonly string[] = ['hive', 'search', 'pages']
const AGENTS = 10_000
const ENTRIES = 100_000
const SEARCHES = 2_000
const IDLE_AGENTS = 100_000
const ENV = { STARTER_CREDITS_USDC: '1000000', LOG_LEVEL: 'warn' }
const scale: BenchmarkScale = {
  rounds: Number(values.rounds),
  warmUpMs: 1_500,
  measureMs: Number(values.seconds) * 1_000,
}
const wanted = (group: Group) => values.only === undefined || values.only.includes(group)

console.log(`${describeMachine()}, load ${loadAverage()}`)
if (values.only?.every((group) => WITHOUT_STATION.includes(group)) !== true) buildStation()
const rows: BenchmarkRow[] = []
if (wanted('start')) note([await benchmarkStartup(scale.rounds)])
const plane = STATION_GROUPS.some(wanted) ? await measureStationGroups() : ''
if (wanted('stored') && values.stored !== '0') {
  note([await benchmarkStoredAgents(Number(values.stored), ENV, scale)])
}
if (wanted('payments')) note(await benchmarkPayments(scale))
if (wanted('sockets')) note(await benchmarkWebSockets(ENV, scale))
if (wanted('hive')) note([await benchmarkHiveSearch(ENTRIES, SEARCHES)])
if (wanted('search')) note(await benchmarkSearchRecall())
if (wanted('sandbox')) note(await benchmarkSandbox(scale))
if (wanted('sandbox-fairness')) note(await benchmarkSandboxFairness())
if (wanted('pages')) note(await benchmarkPageParsing(scale))
if (values.only === undefined)
  writeFileSync(join(REPOSITORY_ROOT, 'bench/results.md'), renderBenchmarkResults(rows, plane))

function note(added: readonly BenchmarkRow[]): void {
  rows.push(...added)
  for (const { what, measured, baseline, result, target, met, load: at } of added) {
    console.log(`${met ? 'met   ' : 'MISSED'} ${what}: ${result} (${target}), load ${at}`)
    console.log(`       ${[measured, baseline].filter((text) => text !== '').join(' | ')}`)
  }
}

/** Measures against a new station; returns its plane. */
async function measureStationGroups(): Promise<string> {
  const dataDir = createDataDirectory()
  const station = await spawnStationProcess({ dataDir, port: await findFreePort(), env: ENV })
  const sql = openEmbeddedDatabase(dataDir)
  try {
    console.log(station.bootLine)
    await measure(station, sql, dataDir)
    return station.bootLine
  } finally {
    await sql.end({ timeout: 1 })
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function measure({ url }: StationProcess, database: Sql, dataDir: string): Promise<void> {
  const client = createStationClient(url, 1)
  const ids = await seedAgents(client, database, AGENTS)
  const keys = await seedApiKeys(dataDir, database, ids)
  const baseline = spawnChildProgram('baseline-server.ts', [dataDir, String(AGENTS)])
  try {
    const field: HttpBenchTargets = {
      station: Number(new URL(url).port),
      baseline: Number(await baseline.ask()),
      keys,
      accounts: ids.map((_, at) => String(at)),
    }
    if (wanted('hot')) note(await benchmarkHotAgent(field, scale))
    if (wanted('spread')) note([await benchmarkManyAgents(field, scale)])
    if (wanted('latency')) note([await benchmarkSteadyLatency(field, scale)])
    if (wanted('inside')) note([await benchmarkDiskFlush(dataDir, database, ids[0] ?? '', scale)])
    if (wanted('memory')) {
      note([
        await benchmarkMemoryPerAgent(dataDir, await seedAgents(client, database, IDLE_AGENTS)),
      ])
    }
  } finally {
    await baseline.stop()
    await client.close()
  }
}
