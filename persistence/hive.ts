import type postgres from 'postgres'
import type { Sql } from './plane.ts'

export interface HiveSearch {
  readonly text: string
  readonly namespace: string | null
  readonly minConfidence: number
  /** Whose private entries are found too; null for none. */
  readonly agentId: string | null
  readonly reader: string
  /** The UTC day as `2026-11-21`. */
  readonly day: string
  readonly candidates: number
}

export interface HiveCandidate {
  readonly id: string
  readonly content: string
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  readonly at: Date
  readonly rank: number
  readonly readToday: boolean
}

/** A number of things of one name that happened `daysAgo` days of 24 hours before an instant. */
export interface DailyCount {
  readonly name: string
  readonly daysAgo: number
  readonly count: number
}

/** The newest matches that are ranked: bounds the work of a query that matches everything. */
const MOST_MATCHES = 1_000
const TRIGRAM_THRESHOLD = '0.4'

/** Reads over shared memory. Writes are the commit's. */
export function hiveStore(sql: Sql) {
  let trigrams: boolean | undefined

  async function hasTrigrams(): Promise<boolean> {
    const [row] = await sql<{ found: boolean }[]>`
      select to_regprocedure('word_similarity(text, text)') is not null as found`
    return row?.found ?? false
  }

  return {
    /** Entries with all words, else with any of them, else alike by trigrams; best rank first. */
    async search(search: HiveSearch): Promise<{ candidates: HiveCandidate[]; total: number }> {
      const all = await byWords(sql, search, sql`websearch_to_tsquery('english', ${search.text})`)
      if (all.total > 0) return all
      const any = sql`replace(plainto_tsquery('english', ${search.text})::text, ' & ', ' | ')::tsquery`
      const some = await byWords(sql, search, any)
      if (some.total > 0) return some
      trigrams ??= await hasTrigrams()
      return trigrams ? byTrigrams(sql, search) : some
    },

    /** Public reads, public writes and calls by name and day, over the eight days before `at`. */
    async activity(at: Date) {
      const since = new Date(at.getTime() - 8 * 86_400_000)
      const [reads, writes, calls] = await Promise.all([
        sql<CountRow[]>`
          select e.namespace as name, ${daysAgo(sql, at, sql`r.at`)} as days_ago, count(*)::int
            from hive_reads r join hive_entries e on e.id = r.entry_id
           where r.at > ${since} and r.at <= ${at} and not r.ghost and e.is_public group by 1, 2`,
        sql<CountRow[]>`
          select namespace as name, ${daysAgo(sql, at, sql`at`)} as days_ago, count(*)::int
            from hive_entries
           where at > ${since} and at <= ${at} and is_public group by 1, 2`,
        sql<CountRow[]>`
          select tool as name, ${daysAgo(sql, at, sql`at`)} as days_ago, count(*)::int
            from calls
           where at > ${since} and at <= ${at} and tool is not null and not ghost
             and status = 'ok' group by 1, 2`,
      ])
      const fromRows = (rows: readonly CountRow[]): DailyCount[] =>
        rows.map((row) => ({ name: row.name, daysAgo: row.days_ago, count: row.count }))
      return { reads: fromRows(reads), writes: fromRows(writes), calls: fromRows(calls) }
    },
  }
}
export type HiveStore = ReturnType<typeof hiveStore>

type Fragment = postgres.PendingQuery<postgres.Row[]>

const daysAgo = (sql: Sql, at: Date, column: Fragment) =>
  sql`floor(extract(epoch from ${at}::timestamptz - ${column}) / 86400)::int`

async function byWords(sql: Sql, search: HiveSearch, query: Fragment) {
  return fromRows(
    await sql<CandidateRow[]>`
      with asked as (select ${query} as query),
      found as (
        select e.*, asked.query from hive_entries e, asked
         where e.content_search @@ asked.query and ${visible(sql, search)}
         order by e.at desc limit ${MOST_MATCHES})
      select ${columns(sql, search)}, ts_rank_cd(f.content_search, f.query, 32) as rank
        from found f order by rank desc, f.at desc, f.id limit ${search.candidates}`,
  )
}

/** The threshold of the operator is a setting, so it is changed for one transaction only. */
async function byTrigrams(sql: Sql, search: HiveSearch) {
  const rows = await sql.begin('read only', async (tx) => {
    await tx`select set_config('pg_trgm.word_similarity_threshold', ${TRIGRAM_THRESHOLD}, true)`
    return tx<CandidateRow[]>`
      with found as (
        select e.* from hive_entries e
         where e.content %> ${search.text} and ${visible(sql, search)}
         order by e.at desc limit ${MOST_MATCHES})
      select ${columns(sql, search)}, word_similarity(${search.text}, f.content) as rank
        from found f order by rank desc, f.at desc, f.id limit ${search.candidates}`
  })
  return fromRows(rows)
}

const visible = (sql: Sql, { agentId, minConfidence, namespace }: HiveSearch) => sql`
  (e.is_public or e.agent_id = ${agentId}::uuid) and e.confidence >= ${minConfidence}
    and (${namespace}::text is null or e.namespace = ${namespace})`

const columns = (sql: Sql, { reader, day }: HiveSearch) => sql`
  f.id, f.content, f.confidence, f.namespace, f.agent_id, f.at, (count(*) over ())::int as total,
  exists (select from hive_reads r where r.entry_id = f.id and r.reader = ${reader}
             and r.day = ${day}::date) as read_today`

interface CountRow {
  name: string
  days_ago: number
  count: number
}

interface CandidateRow {
  id: string
  content: string
  confidence: number
  namespace: string
  agent_id: string
  at: Date
  rank: number
  read_today: boolean
  total: number
}

const fromRows = (rows: readonly CandidateRow[]) => ({
  total: rows[0]?.total ?? 0,
  candidates: rows.map((row): HiveCandidate => ({
    id: row.id,
    content: row.content,
    confidence: row.confidence,
    namespace: row.namespace,
    agentId: row.agent_id,
    at: row.at,
    rank: row.rank,
    readToday: row.read_today,
  })),
})
