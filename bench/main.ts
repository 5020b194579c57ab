import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Sql } from '../persistence/postgres/postgres-connection-pool.ts'
import { createStationHttpClient } from '../chaos/station-http-client.ts'
import {
  loadAverage,
  describeHostHardware,
} from '../chaos/quantiles-host-hardware-and-text-tables.ts'
import {
  compileStationFromSources,
  createProofDataDirectory,
  connectToEmbeddedStationDatabase,
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
  type HttpBenchServerPortsAndKeys,
} from './suites/http-throughput-benchmark.ts'
import {
  benchmarkSynchronousCommit,
  benchmarkMemoryPerAgent,
} from './suites/disk-flush-and-agent-memory-benchmark.ts'
import { benchmarkCallTransportsAndSchedules } from './suites/paid-call-transports-benchmark.ts'
import { benchmarkGarbage } from './suites/allocations-per-paid-call-benchmark.ts'
import { benchmarkHotNeighbour } from './suites/hot-neighbour-benchmark.ts'
import { benchmarkIdleStation } from './suites/idle-benchmark.ts'
import { benchmarkInspector } from './suites/inspector-feed-benchmark.ts'
import { benchmarkInspectorWatchers } from './suites/inspector-watchers-benchmark.ts'
import { benchmarkPageParsing } from './suites/page-parsing-benchmark.ts'
import { benchmarkPayments } from './suites/payments-benchmark.ts'
import { seedApiKeys, seedAgents } from './seed-agents.ts'
import { spawnBenchmarkChildProgram } from './benchmark-child-processes.ts'
import { renderBenchmarkResults } from './benchmark-results-document.ts'
import type { BenchmarkRow, BenchmarkScale } from './benchmark-result-row.ts'
import { benchmarkDearRequests } from './suites/dear-requests-benchmark.ts'
import { benchmarkCommunityTools } from './suites/community-tools-benchmark.ts'
import { benchmarkPublicDocuments } from './suites/public-documents-benchmark.ts'
import { benchmarkSandbox } from './suites/sandbox-benchmark.ts'
import { benchmarkSoak } from './suites/soak-benchmark.ts'
import { benchmarkSearchRecall } from './suites/search-recall-benchmark.ts'
import { benchmarkWebSockets } from './suites/websockets-benchmark.ts'
import { benchmarkStartup } from './suites/startup-benchmark.ts'
import { benchmarkStoredRows } from './suites/postgres-writes-per-call-benchmark.ts'
import { benchmarkStoredAgents } from './suites/calls-by-stored-agent-count-benchmark.ts'

/** Runs the benchmarks and writes `bench/results.md`. */

const GROUPS = [
  'start',
  'hot',
  'spread',
  'latency',
  'neighbour',
  'shapes',
  'rows',
  'inside',
  'memory',
  'garbage',
  'stored',
  'payments',
  'sockets',
  'hive',
  'search',
  'sandbox',
  'sandbox-fairness',
  'pages',
  'documents',
  'dear',
  'idle',
  'inspector',
  'inspector-watchers',
  'community',
  'soak',
] as const
type Group = (typeof GROUPS)[number]
/** Groups that share one station and one baseline. */
const STATION_GROUPS: readonly Group[] = [
  'hot',
  'spread',
  'latency',
  'neighbour',
  'shapes',
  'rows',
  'inside',
  'memory',
]
/** Groups that run only when they are asked for. */
const LONG_GROUPS: readonly Group[] = ['soak']

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    /** Runs only these groups and writes no file. */
    only: { type: 'string', multiple: true },
    /** Agents stored for the row that compares a large table with a small one; 0 skips it. */
    stored: { type: 'string', default: '1000000' },
    /** Length of the mixed load of `--only soak`. */
    minutes: { type: 'string', default: '15' },
  },
})
/** Groups that need no station. */
const WITHOUT_STATION: readonly string[] = ['hive', 'search', 'pages', 'inspector']
const AGENTS = 10_000
const ENTRIES = 100_000
const SEARCHES = 2_000
const IDLE_AGENTS = 100_000
/** Made by `minimal-paid-call-benchmark-server.ts`. */
const FLOOR_DATABASE = 'floor'
const ENV = { STARTER_CREDITS_USDC: '1000000', LOG_LEVEL: 'warn' }
const scale: BenchmarkScale = {
  rounds: Number(values.rounds),
  warmUpMs: 1_500,
  measureMs: Number(values.seconds) * 1_000,
}
const wanted = (group: Group) =>
  values.only === undefined ? !LONG_GROUPS.includes(group) : values.only.includes(group)
for (const group of values.only ?? [])
  if (!GROUPS.some((known) => known === group))
    throw new Error(`no group ${group}: ${GROUPS.join(', ')}`)

console.log(`${describeHostHardware()}, load ${loadAverage()}`)
if (values.only?.every((group) => WITHOUT_STATION.includes(group)) !== true)
  compileStationFromSources()
const rows: BenchmarkRow[] = []
if (wanted('start')) note(await benchmarkStartup(scale.rounds))
const plane = STATION_GROUPS.some(wanted) ? await measureStationGroups() : ''
if (wanted('stored') && values.stored !== '0') {
  note([await benchmarkStoredAgents(Number(values.stored), ENV, scale)])
}
if (wanted('garbage')) note([await benchmarkGarbage(ENV)])
if (wanted('payments')) note(await benchmarkPayments(scale))
if (wanted('sockets')) note(await benchmarkWebSockets(ENV, scale))
if (wanted('hive')) note([await benchmarkHiveSearch(ENTRIES, SEARCHES)])
if (wanted('search')) note(await benchmarkSearchRecall())
if (wanted('sandbox')) note(await benchmarkSandbox(scale))
if (wanted('sandbox-fairness')) note(await benchmarkSandboxFairness())
if (wanted('idle')) note([await benchmarkIdleStation(ENV)])
if (wanted('documents')) note(await benchmarkPublicDocuments(ENV, scale))
if (wanted('dear')) note(await benchmarkDearRequests(scale))
if (wanted('community')) note(await benchmarkCommunityTools(scale))
if (wanted('inspector')) note(await benchmarkInspector())
if (wanted('inspector-watchers')) note(await benchmarkInspectorWatchers(ENV, scale))
if (wanted('soak')) note([await benchmarkSoak(ENV, Number(values.minutes))])
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
  const dataDir = createProofDataDirectory()
  const nodeArgs = ['--max-semi-space-size=16']
  const station = await spawnStationProcess({
    dataDir,
    port: await findFreePort(),
    env: ENV,
    // As `npm start` and the image run it.
    nodeArgs,
  })
  const sql = connectToEmbeddedStationDatabase(dataDir)
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

async function measure(
  { url, pid }: StationProcess,
  database: Sql,
  dataDir: string,
): Promise<void> {
  const client = createStationHttpClient(url, 1)
  const ids = await seedAgents(client, database, AGENTS)
  const keys = await seedApiKeys(dataDir, database, ids)
  const baseline = spawnBenchmarkChildProgram('baseline-server.ts', [dataDir, String(AGENTS)])
  const floor = spawnBenchmarkChildProgram('minimal-paid-call-benchmark-server.ts', [
    dataDir,
    String(AGENTS),
  ])
  try {
    const field: HttpBenchServerPortsAndKeys = {
      station: Number(new URL(url).port),
      baseline: Number(await baseline.ask()),
      floor: Number(await floor.ask()),
      keys,
      accounts: ids.map((_, at) => String(at)),
    }
    if (wanted('hot')) note(await benchmarkHotAgent(field, scale))
    if (wanted('spread')) note(await benchmarkManyAgents(field, scale))
    if (wanted('latency')) note(await benchmarkSteadyLatency(field, scale))
    if (wanted('neighbour')) note([await benchmarkHotNeighbour(field, scale)])
    if (wanted('shapes'))
      note(await benchmarkCallTransportsAndSchedules(field, client, database, scale))
    if (wanted('rows')) {
      const itsDatabase = connectToEmbeddedStationDatabase(dataDir, 1, FLOOR_DATABASE)
      const least = { sql: itsDatabase, pid: floor.pid }
      note(await benchmarkStoredRows(field, { sql: database, pid }, least))
      await itsDatabase.end({ timeout: 1 })
    }
    if (wanted('inside'))
      note([await benchmarkSynchronousCommit(dataDir, database, ids[0] ?? '', scale)])
    if (wanted('memory')) {
      note([
        await benchmarkMemoryPerAgent(dataDir, await seedAgents(client, database, IDLE_AGENTS)),
      ])
    }
  } finally {
    await baseline.stop()
    await floor.stop()
    await client.close()
  }
}
