import { SEARCH_STOP_WORDS, SYNONYM_GROUPS } from './hive-search-synonyms.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Synonyms of search stems. */

/** A synonym of some stems. */
interface SynonymQuery {
  /** The stems it replaces. */
  readonly of: readonly string[]
  /** As a query of its stems. */
  readonly query: string
  readonly stems: readonly string[]
}

/** The synonym groups (persistence/hive/hive-search-synonyms.ts) as stems of the index. */
export interface SearchThesaurus {
  /** Question words have a low weight. */
  isQuestionWord(stem: string): boolean
  /** Synonyms of these stems that are not among them. */
  findSynonyms(stems: readonly string[]): SynonymQuery[]
}

/** Loaded once: PostgreSQL computes the stems. */
export function createThesaurusLoader(sql: Sql): () => Promise<SearchThesaurus> {
  let ready: Promise<SearchThesaurus> | undefined
  return () => {
    if (ready === undefined) {
      ready = loadThesaurus(sql)
      ready.catch(() => (ready = undefined))
    }
    return ready
  }
}

interface SynonymRow {
  readonly at: number
  readonly query: string
  readonly stems: string[]
}

async function loadThesaurus(sql: Sql): Promise<SearchThesaurus> {
  const spelt = SYNONYM_GROUPS.flatMap((group, at) => group.map((words) => ({ at, words })))
  const [rows, framing] = await Promise.all([
    sql<SynonymRow[]>`
      select x.at, phraseto_tsquery('english', x.words)::text as query,
             tsvector_to_array(to_tsvector('english', x.words)) as stems
        from jsonb_to_recordset(${JSON.stringify(spelt)}::text::jsonb) x(at int, words text)`,
    sql<{ stems: string[] }[]>`
      select tsvector_to_array(to_tsvector('english', ${SEARCH_STOP_WORDS.join(' ')})) as stems`,
  ])
  const weak = new Set(framing[0]?.stems ?? [])
  const groups = new Map<number, SynonymRow[]>()
  const byStem = new Map<string, SynonymRow[]>()
  for (const row of rows.filter(({ stems }) => stems.length > 0)) {
    groups.set(row.at, [...(groups.get(row.at) ?? []), row])
    const [first = ''] = row.stems
    byStem.set(first, [...(byStem.get(first) ?? []), row])
  }
  return {
    isQuestionWord: (stem) => weak.has(stem),
    findSynonyms(stems) {
      const asked = new Set(stems)
      const said = (one: SynonymRow) => one.stems.every((stem) => asked.has(stem))
      const found = new Map<string, SynonymQuery>()
      for (const one of stems.flatMap((stem) => byStem.get(stem) ?? []).filter(said)) {
        for (const other of groups.get(one.at) ?? []) {
          if (!said(other)) found.set(other.query, { ...other, of: one.stems })
        }
      }
      return [...found.values()]
    },
  }
}
