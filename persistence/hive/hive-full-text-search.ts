import type postgres from 'postgres'
import { createHiveQueryParser, type ParsedHiveQuery } from './hive-query-parser.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { publicHiveAuthorIdSql } from '../agents/public-agent-sql.ts'
import { expandSearchTerms, type WeightedSearchTerm } from './expand-search-terms-with-synonyms.ts'
import { createThesaurusLoader } from './search-thesaurus.ts'

/** Full-text search over Hive entries. */

export interface HiveSearchQuery {
  readonly text: string
  readonly namespace: string | null
  readonly minConfidence: number
  /** The agent whose private entries are included; null for none. */
  readonly agentId: string | null
  readonly reader: string
  /** The UTC day as `2026-11-21`. */
  readonly day: string
  readonly candidates: number
  /** How common words are: decides which are searched first. */
  readonly frequencies: StemFrequencies
  /** Only entries with all words, or what the operators of the text require. */
  readonly exact?: boolean
}

export interface HiveSearchCandidate {
  readonly id: string
  readonly content: string
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  /** The author's id where public places name it. */
  readonly author: string | null
  readonly at: Date
  readonly rank: number
  readonly readToday: boolean
}

export interface RankedHiveEntries {
  readonly candidates: HiveSearchCandidate[]
  readonly total: number
}

/** The share of entries that have a stem, for common stems, from the statistics of the table. */
export interface StemFrequencies {
  readonly entries: number
  readonly shares: ReadonlyMap<string, number>
}

/** Limit of one search; a query with more matches drops the older ones. */
const MAX_MATCHES = 500
/** A query with more estimated matches is searched among the newest entries only. */
const COMMON_QUERY_MATCHES = 2_000
const MAX_NEWEST_ENTRIES = 2_000
/** A table this small is counted, since PostgreSQL may not have statistics yet. */
const MIN_ESTIMATED_ENTRIES = 1_000
const MAX_TERMS = 24
/** If rare words match fewer, common words are searched too. */
const MIN_RARE_TERM_MATCHES = 10
const PROXIMITY_RANKED_MATCHES = 60

/**
 * Full-text search whose cost does not grow with the table: entries with all words, else with any
 * of them after correcting typing errors; rare words weigh most.
 */
export function createHiveFullTextSearch(sql: Sql) {
  const asking = createHiveQueryParser(sql)
  const glossary = createThesaurusLoader(sql)

  async function withAll(
    search: HiveSearchQuery,
    { query }: ParsedHiveQuery,
  ): Promise<RankedHiveEntries> {
    const wide = estimateQueryMatches(search.frequencies, query) > COMMON_QUERY_MATCHES
    return toRankedHiveEntries(
      await sql<CandidateRow[]>`
        with found as materialized (
          select m.id, m.at, ts_rank_cd(m.content_search, ${query}::tsquery, 32) as rank
            from ${selectMatches(sql, search, query, wide)} m)
        ${selectBestCandidates(sql, search)}`,
    )
  }

  async function withAny(
    search: HiveSearchQuery,
    terms: readonly WeightedSearchTerm[],
    looks: readonly SearchPass[],
  ): Promise<RankedHiveEntries> {
    const { frequencies } = search
    const known = terms.map((term) => termFrequency(frequencies, term) * frequencies.entries)
    const said = heaviestTerms(terms)
      .map(({ query }) => query)
      .join(' | ')
    return toRankedHiveEntries(
      await sql<CandidateRow[]>`
        with words as materialized (
          select w.query::tsquery as query, w.known, w.factor, w.meaning, w.at
            from unnest(${terms.map(({ query }) => query)}::text[], ${known}::float8[],
                        ${terms.map(({ factor }) => factor)}::float8[], ${terms.map(({ meaning }) => meaning)}::int[])
                 with ordinality w(query, known, factor, meaning, at)),
        matches as materialized (${selectPassMatches(sql, search, looks)}),
        hits as materialized (
          select m.id, w.at, w.meaning from matches m join words w on m.content_search @@ w.query),
        weights as materialized (
          select at, factor * ln(1 + (n - df + 0.5) / (df + 0.5)) as weight
            from (select w.at, w.factor, greatest(w.known, count(h.id)) as df
                    from words w left join hits h using (at) group by w.at, w.factor, w.known) w,
                 (select greatest(${frequencies.entries}::float8, count(*)) as n from matches) total),
        -- A meaning counts once, with its best weight.
        meanings as (
          select h.id, max(weight) as weight from hits h join weights using (at) group by h.id, h.meaning),
        scored as (
          select m.id, m.at, sum(s.weight) / (0.9 + m.size / 4000.0) as rank
            from meanings s join matches m using (id) group by m.id, m.at, m.size),
        -- Only among the best it is worth knowing how near to each other the words stand.
        found as (
          select s.id, s.at, case when row_number() over (order by s.rank desc) > ${PROXIMITY_RANKED_MATCHES} then s.rank
                   else s.rank * (1 + 0.2 * ts_rank_cd(m.content_search, ${said}::tsquery, 32))
                   end as rank
            from scored s join matches m using (id))
        ${selectBestCandidates(sql, search)}`,
    )
  }

  return {
    async search(search: HiveSearchQuery): Promise<RankedHiveEntries> {
      const question = await asking.read(search.text)
      if (question.stems.length === 0) return NO_MATCHES
      const all = await withAll(search, question)
      if (all.total > 0 || search.exact === true || hasOperators(search.text)) return all
      const asked = expandSearchTerms(await asking.stems(question), await glossary())
      const terms = rarestTerms(search.frequencies, asked)
      const [first, ...rest] = planSearchPasses(search.frequencies, terms)
      if (first === undefined) return NO_MATCHES
      const found = await withAny(search, terms, [first])
      // The rarest word may be one that no entry has.
      const few = found.total < MIN_RARE_TERM_MATCHES && rest.length > 0
      return few ? withAny(search, terms, [first, ...rest]) : found
    },

    /** Public entries by their ids, as a search shows them; unordered. */
    async these(search: Pick<HiveSearchQuery, 'reader' | 'day'>, ids: readonly string[]) {
      const rows = await sql<CandidateRow[]>`
        select e.id, e.content, e.confidence, e.namespace, e.agent_id, ${publicHiveAuthorIdSql(sql)} as author, e.at, 0 as rank, 0 as total,
               exists (select from hive_reads r where r.entry_id = e.id and r.reader = ${search.reader}
                          and r.day = ${search.day}::date) as read_today
          from hive_entries e where e.id = any(${toTextArrayLiteral(ids)}::uuid[]) and e.is_public`
      return toRankedHiveEntries(rows).candidates
    },

    frequencies: () => readStemFrequencies(sql),
  }
}

/** Reads how common the common words are; called occasionally. */
async function readStemFrequencies(sql: Sql): Promise<StemFrequencies> {
  const [row] = await sql<FrequencyRow[]>`
    select case when c.reltuples >= ${MIN_ESTIMATED_ENTRIES} then c.reltuples
                else (select count(*) from (select from hive_entries limit ${MIN_ESTIMATED_ENTRIES}) first) end::float8 as entries,
           s.most_common_elems::text::text[] as stems,
           s.most_common_elem_freqs::float8[] as shares
      from pg_class c left join pg_stats s on s.tablename = 'hive_entries'
       and s.attname = 'content_search' and s.schemaname = c.relnamespace::regnamespace::text
     where c.oid = 'hive_entries'::regclass`
  const shares = (row?.stems ?? []).map((stem, at) => [stem, row?.shares?.[at] ?? 0] as const)
  return { entries: row?.entries ?? 0, shares: new Map(shares) }
}

const NO_MATCHES: RankedHiveEntries = { candidates: [], total: 0 }

/** Quoted phrases and excluded words: such a query is taken literally. */
const hasOperators = (text: string): boolean => /"|(^|\s)-\w/.test(text)

const termFrequency = (
  { shares }: StemFrequencies,
  { stems }: Pick<WeightedSearchTerm, 'stems'>,
): number => Math.min(...stems.map((stem) => shares.get(stem) ?? 0))

const rarestTerms = (
  frequencies: StemFrequencies,
  terms: readonly WeightedSearchTerm[],
): WeightedSearchTerm[] =>
  [...terms]
    .sort(
      (a, b) =>
        termFrequency(frequencies, a) - termFrequency(frequencies, b) || b.factor - a.factor,
    )
    .slice(0, MAX_TERMS)

/** Estimates how many entries have all of the stems, or any, assuming independent words. */
function estimateMatches(
  frequencies: StemFrequencies,
  terms: readonly Pick<WeightedSearchTerm, 'stems'>[],
  how: 'all' | 'any',
): number {
  const shares = terms.map((term) => termFrequency(frequencies, term))
  const share =
    how === 'all'
      ? shares.reduce((left, one) => left * one, 1)
      : shares.reduce((sum, one) => sum + one, 0)
  return share * frequencies.entries
}

/**
 * Estimates how many entries match a `websearch_to_tsquery` query: alternatives add up, exclusions
 * are ignored.
 */
function estimateQueryMatches(frequencies: StemFrequencies, query: string): number {
  const stems: string[] = []
  const plain = query.replace(/'(?:[^']|'')*'/g, (word) => {
    stems.push(word.slice(1, -1).replaceAll("''", "'").replaceAll('\\\\', '\\'))
    return String(stems.length - 1)
  })
  return plain.split('|').reduce((sum, all) => {
    const needed = all.replace(/!\s*(?:\d+|\([^()]*\))/g, '').match(/\d+/g) ?? []
    const known = needed.flatMap((at) => stems[Number(at)] ?? [])
    return (
      sum +
      estimateMatches(
        frequencies,
        known.map((stem) => ({ stems: [stem] })),
        'all',
      )
    )
  }, 0)
}

/** The terms that weigh most: the words of the question, unless all are question words. */
function heaviestTerms(terms: readonly WeightedSearchTerm[]): readonly WeightedSearchTerm[] {
  const most = Math.max(...terms.map(({ factor }) => factor))
  return terms.filter(({ factor }) => factor === most)
}

/**
 * Plans the searches in order: the rarest terms within the limits; and of common terms, pairs of
 * the three rarest, among the newest entries if the pairs are common too.
 */
function planSearchPasses(
  frequencies: StemFrequencies,
  terms: readonly WeightedSearchTerm[],
): SearchPass[] {
  const rare = terms.filter(
    (_, at) => estimateMatches(frequencies, terms.slice(0, at + 1), 'any') <= COMMON_QUERY_MATCHES,
  )
  const pairs = termPairs(heaviestTerms(terms).filter((term) => !rare.includes(term)))
  const query = pairs.map((pair) => pair.map((term) => `(${term.query})`).join(' & ')).join(' | ')
  const wide = pairs.some(
    (pair) => estimateMatches(frequencies, pair, 'all') > COMMON_QUERY_MATCHES,
  )
  return [
    ...(rare.length === 0 ? [] : [{ query: joinWithOr(rare), wide: false }]),
    ...(pairs.length === 0 ? [] : [{ query, wide }]),
  ]
}
interface SearchPass {
  readonly query: string
  readonly wide: boolean
}

const joinWithOr = (terms: readonly WeightedSearchTerm[]) =>
  terms.map(({ query }) => `(${query})`).join(' | ')

/** Pairs of the first three; a single term stays single. */
const termPairs = ([a, b, c]: readonly WeightedSearchTerm[]): WeightedSearchTerm[][] => {
  if (a === undefined) return []
  if (b === undefined) return [[a]]
  return c === undefined
    ? [[a, b]]
    : [
        [a, b],
        [a, c],
        [b, c],
      ]
}

/** The union of one or two searches. */
function selectPassMatches(
  sql: Sql,
  search: HiveSearchQuery,
  looks: readonly SearchPass[],
): Fragment {
  const [first, second] = looks.map(
    ({ query, wide }) => sql`select m.* from ${selectMatches(sql, search, query, wide)} m`,
  )
  if (first === undefined) throw new Error('a search looks for something')
  if (second === undefined) return first
  return sql`select distinct on (b.id) b.* from (${first} union all ${second}) b`
}

/** The newest matches by the word index; for a common query, among the newest entries. */
function selectMatches(sql: Sql, search: HiveSearchQuery, query: string, wide: boolean): Fragment {
  const { agentId, minConfidence, namespace } = search
  if (!wide) {
    return sql`hive_matching(${query}::tsquery, ${agentId}::uuid, ${minConfidence}::float8,
                             ${namespace}::text, ${MAX_MATCHES}::int)`
  }
  return sql`
    (select e.id, e.at, e.content_search, length(e.content) as size
       from (select * from hive_entries e
              where (e.is_public or e.agent_id = ${agentId}::uuid) and e.confidence >= ${minConfidence}
                and (${namespace}::text is null or e.namespace = ${namespace})
              order by e.at desc limit ${MAX_NEWEST_ENTRIES}) e
      where e.content_search @@ ${query}::tsquery limit ${MAX_MATCHES})`
}

/** The best of `found`, with the shown fields. */
const selectBestCandidates = (
  sql: Sql,
  { reader, day, candidates }: HiveSearchQuery,
): Fragment => sql`
  select e.id, e.content, e.confidence, e.namespace, e.agent_id, ${publicHiveAuthorIdSql(sql)} as author, e.at, f.rank, f.total,
         exists (select from hive_reads r where r.entry_id = e.id and r.reader = ${reader}
                    and r.day = ${day}::date) as read_today
    from (select id, rank, (count(*) over ())::int as total from found
           order by rank desc, at desc, id limit ${candidates}) f
    join hive_entries e on e.id = f.id order by f.rank desc, e.at desc, e.id`

type Fragment = postgres.PendingQuery<postgres.Row[]>

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
  author: string | null
  at: Date
  rank: number
  read_today: boolean
  total: number
}

const toRankedHiveEntries = (rows: readonly CandidateRow[]): RankedHiveEntries => ({
  total: rows[0]?.total ?? 0,
  candidates: rows.map((row) => ({
    id: row.id,
    content: row.content,
    confidence: row.confidence,
    namespace: row.namespace,
    agentId: row.agent_id,
    author: row.author,
    at: row.at,
    rank: row.rank,
    readToday: row.read_today,
  })),
})
