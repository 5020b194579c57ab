import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Sql } from '../persistence/postgres/connect.ts'
import { clientOf } from '../scripts/prove/agents.ts'
import { load, machine } from '../scripts/prove/figures.ts'
import {
  build,
  freePort,
  newDataDir,
  openDatabase,
  startStation,
  type Station,
} from '../scripts/prove/station.ts'
import { ROOT } from '../scripts/root.ts'
import { fairnessRows } from './fairness-rows.ts'
import { hiveRow } from './hive.ts'
import { hotRows, latencyRow, spreadRow, type Field } from './http-rows.ts'
import { flushRow, memoryRow } from './inside-rows.ts'
import { pageRows } from './pages.ts'
import { paymentRows } from './payments-rows.ts'
import { giveKeys, populate } from './population.ts'
import { helper } from './processes.ts'
import { document } from './results.ts'
import type { Row, Scale } from './rows.ts'
import { sandboxRows } from './sandbox-rows.ts'
import { searchRows } from './search-rows.ts'
import { socketRows } from './socket-rows.ts'
import { startRow } from './start-row.ts'
import { storedRow } from './stored-row.ts'

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
/** The groups that share one station and one baseline. */
const IN_THE_FIELD: readonly Group[] = ['hot', 'spread', 'latency', 'inside', 'memory']

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    /** Some of the groups only; nothing is written then. */
    only: { type: 'string', multiple: true },
    /** Agents stored for the row that compares a large table with a small one; 0 leaves it out. */
    stored: { type: 'string', default: '1000000' },
  },
})
/** The groups that need no station: what they ask is started from here. */
const WITHOUT_STATION: readonly string[] = ['hive', 'search', 'pages']
const AGENTS = 10_000
const ENTRIES = 100_000
const SEARCHES = 2_000
const IDLE_AGENTS = 100_000
const ENV = { STARTER_CREDITS_USDC: '1000000', LOG_LEVEL: 'warn' }
const scale: Scale = {
  rounds: Number(values.rounds),
  warmUpMs: 1_500,
  measureMs: Number(values.seconds) * 1_000,
}
const wanted = (group: Group) => values.only === undefined || values.only.includes(group)

console.log(`${machine()}, load ${load()}`)
if (values.only?.every((group) => WITHOUT_STATION.includes(group)) !== true) build()
const rows: Row[] = []
if (wanted('start')) note([await startRow(scale.rounds)])
const plane = IN_THE_FIELD.some(wanted) ? await inTheField() : ''
if (wanted('stored') && values.stored !== '0') {
  note([await storedRow(Number(values.stored), ENV, scale)])
}
if (wanted('payments')) note(await paymentRows(scale))
if (wanted('sockets')) note(await socketRows(ENV, scale))
if (wanted('hive')) note([await hiveRow(ENTRIES, SEARCHES)])
if (wanted('search')) note(await searchRows())
if (wanted('sandbox')) note(await sandboxRows(scale))
if (wanted('sandbox-fairness')) note(await fairnessRows())
if (wanted('pages')) note(await pageRows(scale))
if (values.only === undefined) writeFileSync(join(ROOT, 'bench/results.md'), document(rows, plane))

function note(added: readonly Row[]): void {
  rows.push(...added)
  for (const { what, measured, baseline, result, target, met, load: at } of added) {
    console.log(`${met ? 'met   ' : 'MISSED'} ${what}: ${result} (${target}), load ${at}`)
    console.log(`       ${[measured, baseline].filter((text) => text !== '').join(' | ')}`)
  }
}

/** Measures on a station of its own; answers its plane. */
async function inTheField(): Promise<string> {
  const dataDir = newDataDir()
  const station = await startStation({ dataDir, port: await freePort(), env: ENV })
  const sql = openDatabase(dataDir)
  try {
    console.log(station.plane)
    await measure(station, sql, dataDir)
    return station.plane
  } finally {
    await sql.end({ timeout: 1 })
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function measure({ url }: Station, database: Sql, dataDir: string): Promise<void> {
  const client = clientOf(url, 1)
  const ids = await populate(client, database, AGENTS)
  const keys = await giveKeys(dataDir, database, ids)
  const baseline = helper('naive.ts', [dataDir, String(AGENTS)])
  try {
    const field: Field = {
      station: Number(new URL(url).port),
      baseline: Number(await baseline.ask()),
      keys,
      accounts: ids.map((_, at) => String(at)),
    }
    if (wanted('hot')) note(await hotRows(field, scale))
    if (wanted('spread')) note([await spreadRow(field, scale)])
    if (wanted('latency')) note([await latencyRow(field, scale)])
    if (wanted('inside')) note([await flushRow(dataDir, database, ids[0] ?? '', scale)])
    if (wanted('memory')) {
      note([await memoryRow(dataDir, await populate(client, database, IDLE_AGENTS))])
    }
  } finally {
    await baseline.stop()
    await client.close()
  }
}
