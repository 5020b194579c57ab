import type postgres from 'postgres'
import { textArray } from './pg-array.ts'
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
  /** How common words are: chooses what is looked for first. */
  readonly frequencies: Frequencies
  /** Only entries with all words, or what the operators of the text ask for. */
  readonly exact?: boolean
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

export interface HiveFound {
  readonly candidates: HiveCandidate[]
  readonly total: number
}

/** The share of entries that have a stem, for the common ones, by the statistics of the table. */
export interface Frequencies {
  readonly entries: number
  readonly shares: ReadonlyMap<string, number>
}

/** Bounds of one search: what a query finds beyond them is the older part of it. */
const MOST_MATCHES = 500
/** A query that would find more than this is looked for among the newest entries only. */
const COMMON = 2_000
const NEWEST = 2_000
const MOST_STEMS = 12
const NEAR = 60
/** How alike a word must be to count as the one that was meant. */
const ALIKE = 0.4

/**
 * Full-text search whose work does not grow with the table: entries with all words, else with any of
 * them after typing errors were forgiven, rare words weighing most.
 */
export function hiveSearch(sql: Sql) {
  let trigrams: boolean | undefined

  async function hasTrigrams(): Promise<boolean> {
    const [row] = await sql<{ found: boolean }[]>`
      select to_regprocedure('similarity(text, text)') is not null as found`
    return row?.found ?? false
  }

  /** The text as the index spells it, and the words in it that no public entry has. */
  async function read(text: string): Promise<Question> {
    const [row] = await sql<Question[]>`
      select websearch_to_tsquery('english', ${text})::text as query,
             tsvector_to_array(to_tsvector('english', ${text})) as stems,
             array(select w from unnest(tsvector_to_array(to_tsvector('simple', ${text}))) w
                    where w ~ '^[[:alpha:]]{4,32}$' and ts_lexize('english_stem', w) <> '{}'
                      and not exists (select from hive_words k where k.word = w) limit 8) as unknown`
    return row ?? { query: '', stems: [], unknown: [] }
  }

  /** The stems of the words that were probably meant. */
  async function meant(unknown: readonly string[]): Promise<string[]> {
    if (unknown.length === 0) return []
    trigrams ??= await hasTrigrams()
    if (!trigrams) return []
    const [row] = await sql<{ stems: string[] | null }[]>`
      select tsvector_to_array(to_tsvector('english', string_agg(n.word, ' '))) as stems
        from unnest(${unknown}::text[]) u(w) cross join lateral (
          select k.word from hive_words k
           where k.word % u.w and similarity(k.word, u.w) >= ${ALIKE}
           order by similarity(k.word, u.w) desc, k.word limit 1) n`
    return row?.stems ?? []
  }

  async function withAll(search: HiveSearch, { query }: Question): Promise<HiveFound> {
    const wide = expectedOf(search.frequencies, query) > COMMON
    return fromRows(
      await sql<CandidateRow[]>`
        with found as materialized (
          select m.id, m.at, ts_rank_cd(m.content_search, ${query}::tsquery, 32) as rank
            from ${matching(sql, search, query, wide)} m)
        ${best(sql, search)}`,
    )
  }

  async function withAny(search: HiveSearch, stems: readonly string[]): Promise<HiveFound> {
    const { frequencies } = search
    const asked = rarest(frequencies, stems)
    const known = asked.map((stem) => shareOf(frequencies, stem) * frequencies.entries)
    const { query, wide } = lookedFor(frequencies, asked)
    return fromRows(
      await sql<CandidateRow[]>`
        with words as materialized (
          select w.query::tsquery as query, w.known, w.at
            from unnest(${asked.map(quoted)}::text[], ${known}::float8[]) with ordinality w(query, known, at)),
        matches as materialized (select * from ${matching(sql, search, query, wide)} m),
        hits as materialized (
          select m.id, m.at as written, m.size, w.at from matches m join words w on m.content_search @@ w.query),
        weights as materialized (
          select at, ln(1 + (n - df + 0.5) / (df + 0.5)) as weight
            from (select w.at, greatest(w.known, count(h.id)) as df
                    from words w left join hits h using (at) group by w.at, w.known) w,
                 (select greatest(${frequencies.entries}::float8, count(*)) as n from matches) total),
        scored as (
          select h.id, h.written as at, sum(weight) / (0.9 + h.size / 4000.0) as rank
            from hits h join weights using (at) group by h.id, h.written, h.size),
        -- Only among the best it is worth knowing how near to each other the words stand.
        found as (
          select s.id, s.at, case when row_number() over (order by s.rank desc) > ${NEAR} then s.rank
                   else s.rank * (1 + 0.2 * ts_rank_cd(m.content_search, ${asked.map(quoted).join(' | ')}::tsquery, 32))
                   end as rank
            from scored s join matches m using (id))
        ${best(sql, search)}`,
    )
  }

  return {
    async search(search: HiveSearch): Promise<HiveFound> {
      const question = await read(search.text)
      if (question.stems.length === 0) return NOTHING
      const all = await withAll(search, question)
      if (all.total > 0 || search.exact === true || hasOperators(search.text)) return all
      const stems = [...question.stems, ...(await meant(question.unknown))]
      return withAny(search, [...new Set(stems)])
    },

    /** Public entries by their ids, as a search shows them; in no order. */
    async these(search: Pick<HiveSearch, 'reader' | 'day'>, ids: readonly string[]) {
      const rows = await sql<CandidateRow[]>`
        select e.id, e.content, e.confidence, e.namespace, e.agent_id, e.at, 0 as rank, 0 as total,
               exists (select from hive_reads r where r.entry_id = e.id and r.reader = ${search.reader}
                          and r.day = ${search.day}::date) as read_today
          from hive_entries e where e.id = any(${textArray(ids)}::uuid[]) and e.is_public`
      return fromRows(rows).candidates
    },

    /** Read now and then: how common the common words are. */
    async frequencies(): Promise<Frequencies> {
      const [row] = await sql<FrequencyRow[]>`
        select greatest(c.reltuples, 0)::float8 as entries, s.most_common_elems::text::text[] as stems,
               s.most_common_elem_freqs::float8[] as shares
          from pg_class c left join pg_stats s on s.tablename = 'hive_entries'
           and s.attname = 'content_search' and s.schemaname = c.relnamespace::regnamespace::text
         where c.oid = 'hive_entries'::regclass`
      const shares = (row?.stems ?? []).map((stem, at) => [stem, row?.shares?.[at] ?? 0] as const)
      return { entries: row?.entries ?? 0, shares: new Map(shares) }
    },
  }
}

const NOTHING: HiveFound = { candidates: [], total: 0 }

/** Quoted phrases and words that must not occur: whoever writes them wants nothing else. */
const hasOperators = (text: string): boolean => /"|(^|\s)-\w/.test(text)

/** A stem as a query of its own. */
const quoted = (stem: string): string => `'${stem.replace(/['\\]/g, (sign) => sign + sign)}'`

const shareOf = ({ shares }: Frequencies, stem: string): number => shares.get(stem) ?? 0

const rarest = (frequencies: Frequencies, stems: readonly string[]): string[] =>
  [...stems].sort((a, b) => shareOf(frequencies, a) - shareOf(frequencies, b)).slice(0, MOST_STEMS)

/** About how many entries have all of the stems, or any, if words did not attract each other. */
function expected(frequencies: Frequencies, stems: readonly string[], how: 'all' | 'any'): number {
  const shares = stems.map((stem) => shareOf(frequencies, stem))
  const share =
    how === 'all'
      ? shares.reduce((left, one) => left * one, 1)
      : shares.reduce((sum, one) => sum + one, 0)
  return share * frequencies.entries
}

/**
 * About how many entries match a query as `websearch_to_tsquery` spells it: alternatives add up, and what
 * must not occur narrows nothing.
 */
function expectedOf(frequencies: Frequencies, query: string): number {
  const stems: string[] = []
  const plain = query.replace(/'(?:[^']|'')*'/g, (word) => {
    stems.push(word.slice(1, -1).replaceAll("''", "'").replaceAll('\\\\', '\\'))
    return String(stems.length - 1)
  })
  return plain.split('|').reduce((sum, all) => {
    const needed = all.replace(/!\s*(?:\d+|\([^()]*\))/g, '').match(/\d+/g) ?? []
    const known = needed.flatMap((at) => stems[Number(at)] ?? [])
    return sum + expected(frequencies, known, 'all')
  }, 0)
}

/**
 * What has to match at all: as many of the rarest stems as stay within bounds; where even the rarest
 * is common, two of the three rarest at once, and among the newest entries if that is common too.
 */
function lookedFor(frequencies: Frequencies, stems: readonly string[]) {
  const some = stems.filter(
    (_, at) => expected(frequencies, stems.slice(0, at + 1), 'any') <= COMMON,
  )
  if (some.length > 0) return { query: some.map(quoted).join(' | '), wide: false }
  const [a = '', b, c] = stems.slice(0, 3)
  if (b === undefined) return { query: quoted(a), wide: true }
  const pairs =
    c === undefined
      ? [[a, b]]
      : [
          [a, b],
          [a, c],
          [b, c],
        ]
  const query = pairs.map((pair) => `(${pair.map(quoted).join(' & ')})`).join(' | ')
  const wide = pairs.some((pair) => expected(frequencies, pair, 'all') > COMMON)
  return { query, wide }
}

/** The newest matches by the index over words; those of a common query among the newest entries. */
function matching(sql: Sql, search: HiveSearch, query: string, wide: boolean): Fragment {
  const { agentId, minConfidence, namespace } = search
  if (!wide) {
    return sql`hive_matching(${query}::tsquery, ${agentId}::uuid, ${minConfidence}::float8,
                             ${namespace}::text, ${MOST_MATCHES}::int)`
  }
  return sql`
    (select e.id, e.at, e.content_search, length(e.content) as size
       from (select * from hive_entries e
              where (e.is_public or e.agent_id = ${agentId}::uuid) and e.confidence >= ${minConfidence}
                and (${namespace}::text is null or e.namespace = ${namespace})
              order by e.at desc limit ${NEWEST}) e
      where e.content_search @@ ${query}::tsquery limit ${MOST_MATCHES})`
}

/** The best of `found`, with what is shown of them. */
const best = (sql: Sql, { reader, day, candidates }: HiveSearch): Fragment => sql`
  select e.id, e.content, e.confidence, e.namespace, e.agent_id, e.at, f.rank, f.total,
         exists (select from hive_reads r where r.entry_id = e.id and r.reader = ${reader}
                    and r.day = ${day}::date) as read_today
    from (select id, rank, (count(*) over ())::int as total from found
           order by rank desc, at desc, id limit ${candidates}) f
    join hive_entries e on e.id = f.id order by f.rank desc, e.at desc, e.id`

type Fragment = postgres.PendingQuery<postgres.Row[]>

interface Question {
  query: string
  stems: string[]
  unknown: string[]
}

interface FrequencyRow {
  entries: number
  stems: string[] | null
  shares: number[] | null
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

const fromRows = (rows: readonly CandidateRow[]): HiveFound => ({
  total: rows[0]?.total ?? 0,
  candidates: rows.map((row) => ({
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
