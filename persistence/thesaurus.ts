import { FRAMING, SAME } from '../core/glossary.ts'
import type { Sql } from './plane.ts'

/** Another way to say what some stems say. */
interface Other {
  /** The stems it stands for. */
  readonly of: readonly string[]
  /** As a query, with its stems. */
  readonly query: string
  readonly stems: readonly string[]
}

/** The glossary (core/glossary.ts) as the index spells it. */
export interface Thesaurus {
  /** Words that only ask weigh little. */
  isFraming(stem: string): boolean
  /** Other ways to say what these stems say, without those that are among them. */
  others(stems: readonly string[]): Other[]
}

/** Read once: PostgreSQL knows the stems. */
export function thesaurus(sql: Sql): () => Promise<Thesaurus> {
  let ready: Promise<Thesaurus> | undefined
  return () => {
    if (ready === undefined) {
      ready = load(sql)
      ready.catch(() => (ready = undefined))
    }
    return ready
  }
}

interface Spelling {
  readonly at: number
  readonly query: string
  readonly stems: string[]
}

async function load(sql: Sql): Promise<Thesaurus> {
  const spelt = SAME.flatMap((group, at) => group.map((words) => ({ at, words })))
  const [rows, framing] = await Promise.all([
    sql<Spelling[]>`
      select x.at, phraseto_tsquery('english', x.words)::text as query,
             tsvector_to_array(to_tsvector('english', x.words)) as stems
        from jsonb_to_recordset(${JSON.stringify(spelt)}::text::jsonb) x(at int, words text)`,
    sql<{ stems: string[] }[]>`
      select tsvector_to_array(to_tsvector('english', ${FRAMING.join(' ')})) as stems`,
  ])
  const weak = new Set(framing[0]?.stems ?? [])
  const groups = new Map<number, Spelling[]>()
  const byStem = new Map<string, Spelling[]>()
  for (const row of rows.filter(({ stems }) => stems.length > 0)) {
    groups.set(row.at, [...(groups.get(row.at) ?? []), row])
    const [first = ''] = row.stems
    byStem.set(first, [...(byStem.get(first) ?? []), row])
  }
  return {
    isFraming: (stem) => weak.has(stem),
    others(stems) {
      const asked = new Set(stems)
      const said = (one: Spelling) => one.stems.every((stem) => asked.has(stem))
      const found = new Map<string, Other>()
      for (const one of stems.flatMap((stem) => byStem.get(stem) ?? []).filter(said)) {
        for (const other of groups.get(one.at) ?? []) {
          if (!said(other)) found.set(other.query, { ...other, of: one.stems })
        }
      }
      return [...found.values()]
    },
  }
}
