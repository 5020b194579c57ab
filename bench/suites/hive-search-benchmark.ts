import { rmSync } from 'node:fs'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { createHiveSearchService } from '../../memory/hive/hive-search-and-trends.ts'
import type { HiveVectorIndex } from '../../memory/hive/hive-vector-index.ts'
import { createHiveStore } from '../../persistence/hive/hive-store.ts'
import { migrateSchema } from '../../persistence/migrate-schema.ts'
import { openPostgresPool, type Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { startEmbeddedPostgres } from '../../persistence/postgres/embedded-postgres-server.ts'
import { quantile } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import { createProofDataDirectory } from '../../chaos/station-process.ts'
import {
  formatMilliseconds,
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  type BenchmarkRow,
} from '../benchmark-result-row.ts'

/** Benchmarks Hive search over many entries. */

const CHUNK = 5_000
const AUTHOR = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d'

/** Runs searches of every kind one after the other. */
export async function benchmarkHiveSearch(
  entries: number,
  searches: number,
): Promise<BenchmarkRow> {
  return withBenchDatabase(async (sql) => {
    const random = generator(7)
    const texts = Array.from({ length: entries }, () => entryText(random))
    await insertBenchHiveEntries(
      sql,
      texts.map((content, at) => ({
        content,
        namespace: NAMESPACES[at % NAMESPACES.length] ?? '',
      })),
    )
    await sql`vacuum analyze hive_entries`
    const search = createBenchHiveSearcher(sql)
    const questions = Array.from({ length: searches }, () => question(random, texts))
    for (const { text } of questions.slice(0, 50)) await search(text)
    const taken: number[] = []
    const slowest: { ms: number; kind: string }[] = []
    for (const { text, kind } of questions) {
      const startedAt = performance.now()
      await search(text)
      taken.push(performance.now() - startedAt)
      slowest.push({ ms: performance.now() - startedAt, kind })
    }
    const p99 = quantile(taken, 0.99)
    const kinds = [...new Set(slowest.map(({ kind }) => kind))].map((kind) => {
      const own = slowest.filter((one) => one.kind === kind).map((one) => one.ms)
      return `${kind} ${formatMilliseconds(quantile(own, 0.5))}/${formatMilliseconds(quantile(own, 0.99))}`
    })
    return createBenchmarkReportRow({
      what: `hive search over ${formatWithThousandsSeparators(entries)} entries, p99`,
      measured: `p50 ${formatMilliseconds(quantile(taken, 0.5))}, p99 ${formatMilliseconds(p99)}, slowest ${formatMilliseconds(Math.max(...taken))}`,
      baseline: `p50/p99 by kind: ${kinds.join(', ')}`,
      result: formatMilliseconds(p99),
      target: '<= 50 ms',
      met: p99 <= 50,
      n: `${formatWithThousandsSeparators(searches)} searches`,
    })
  })
}

/** A searcher by words and, with vectors, by meaning, as the tools use it. */
export function createBenchHiveSearcher(sql: Sql, vectors: HiveVectorIndex | null = null) {
  const clock = createDatabaseAdjustedClock()
  const hive = createHiveSearchService(createHiveStore(sql), clock, vectors)
  return async (text: string) => {
    const asked = { text, namespace: null, minConfidence: 0, limit: 10, agentId: null }
    return (await hive.search({ ...asked, reader: 'bench', at: clock.now() })).entries
  }
}

/** Runs `work` on a temporary database. */
export async function withBenchDatabase<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
  const dataDir = createProofDataDirectory()
  const server = await startEmbeddedPostgres({ dataDir, log: () => {} })
  const target = { socketDir: () => server.socketDir(), database: 'postgres', user: 'gas' }
  const sql = openPostgresPool(target, { max: 4 })
  try {
    await migrateSchema(sql)
    await sql`set statement_timeout = 0`
    return await work(sql)
  } finally {
    await sql.end({ timeout: 1 })
    await server.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** Inserts public entries of one author, oldest first. */
export async function insertBenchHiveEntries(
  sql: Sql,
  entries: readonly { content: string; namespace: string }[],
) {
  const start = createDatabaseAdjustedClock().now() - entries.length * 1_000
  for (let from = 0; from < entries.length; from += CHUNK) {
    const rows = entries.slice(from, from + CHUNK).map(({ content, namespace }, at) => ({
      id: newUuidV7(start),
      agent_id: AUTHOR,
      content,
      namespace,
      tags: [],
      confidence: 0.8,
      is_public: true,
      call_id: AUTHOR,
      at: new Date(start + (from + at) * 1_000),
      ghost: false,
    }))
    await sql`insert into hive_entries select r.* from
      jsonb_populate_recordset(null::hive_entries, ${JSON.stringify(rows)}::text::jsonb) r`
  }
}

const NAMESPACES = ['base', 'defi', 'trading', 'nft', 'code', 'search', 'virtuals', 'monad']
const SYLLABLES = 'ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo za bra cle dri'.split(
  ' ',
)
const VOCABULARY = words(30_000)

/** Pseudo-words whose frequency falls with their rank, as in natural text. */
function words(count: number): string[] {
  const random = generator(3)
  const made = new Set<string>()
  while (made.size < count) {
    const parts = 2 + Math.floor(random() * 3)
    made.add(Array.from({ length: parts }, () => pick(SYLLABLES, random())).join(''))
  }
  return [...made]
}

function pick(list: readonly string[], chance: number): string {
  return list[Math.floor(chance * list.length)] ?? ''
}

/** Zipf's law with exponent one: the rank is exponential in a uniform chance. */
const word = (random: () => number): string =>
  VOCABULARY[Math.floor(VOCABULARY.length ** random()) - 1] ?? ''

const entryText = (random: () => number): string =>
  Array.from({ length: 30 + Math.floor(random() * 60) }, () => word(random)).join(' ')

type Kind = 'two words' | 'a question' | 'common words' | 'a typing error' | 'nothing'
function question(random: () => number, texts: readonly string[]): { text: string; kind: Kind } {
  const own = (texts[Math.floor(random() * texts.length)] ?? '').split(' ')
  const some = (count: number) => Array.from({ length: count }, () => pick(own, random()))
  const chance = random()
  if (chance < 0.35) return { kind: 'two words', text: some(2).join(' ') }
  if (chance < 0.7) {
    return { kind: 'a question', text: [...some(4), word(random), word(random)].join(' ') }
  }
  if (chance < 0.8)
    return {
      kind: 'common words',
      text: VOCABULARY.slice(0, 4)
        .slice(-1 - Math.floor(random() * 3))
        .join(' '),
    }
  if (chance < 0.95) {
    const wrong = some(2).map((one) => one.slice(0, 3) + one.slice(4))
    return { kind: 'a typing error', text: wrong.join(' ') }
  }
  return { kind: 'nothing', text: 'zzyzx yttrium' }
}

/** A small seeded generator: each run produces the same texts. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
    return state / 4_294_967_296
  }
}
