import { maxEditDistanceFor, editDistance } from '../../core/validation/edit-distance.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** A question in the terms of the index. */
export interface ParsedHiveQuery {
  /** All of its words, or its operators. */
  readonly query: string
  readonly stems: readonly string[]
  readonly words: readonly string[]
  /** Words that no public entry has. */
  readonly unknown: readonly string[]
}

/** How many similar words are examined for an unknown one. */
const MAX_NEIGHBOURS = 10
/** How many words are examined for other forms. */
const MAX_WORDS = 40

/** Parses questions against the words of public entries. */
export function createHiveQueryParser(sql: Sql) {
  let trigrams: boolean | undefined

  async function hasTrigrams(): Promise<boolean> {
    const [row] = await sql<{ found: boolean }[]>`
      select to_regprocedure('similarity(text, text)') is not null as found`
    return row?.found ?? false
  }

  /** Words spelled like the unknown ones, most similar first. */
  async function neighbours(unknown: readonly string[]): Promise<SimilarWord[]> {
    if (unknown.length === 0) return []
    trigrams ??= await hasTrigrams()
    if (!trigrams) return []
    return sql<SimilarWord[]>`
      select u.w as asked, n.word from unnest(${toTextArrayLiteral(unknown)}::text[]) u(w) cross join lateral (
        select k.word, similarity(k.word, u.w) as alike from hive_words k
         where k.word % u.w order by alike desc, k.word limit ${MAX_NEIGHBOURS}) n
       order by u.w, n.alike desc, n.word`
  }

  /** The words that public entries have. */
  async function known(words: readonly string[]): Promise<ReadonlySet<string>> {
    if (words.length === 0) return new Set()
    const rows = await sql<{ word: string }[]>`
      select word from hive_words where word = any(${toTextArrayLiteral(words)}::text[])`
    return new Set(rows.map(({ word }) => word))
  }

  return {
    async read(text: string): Promise<ParsedHiveQuery> {
      const [row] = await sql<Omit<ParsedHiveQuery, 'words'>[]>`
        select websearch_to_tsquery('english', asked)::text as query,
               tsvector_to_array(to_tsvector('english', concat_ws(' ', asked, spelling_variants(asked)))) as stems,
               array(select w from unnest(tsvector_to_array(to_tsvector('simple', asked))) w
                      where w ~ '^[[:alpha:]]{4,32}$' and ts_lexize('english_stem', w) <> '{}'
                        and not exists (select from hive_words k where k.word = w) limit 8) as unknown
          from search_question(${text}) asked`
      const words = text.toLowerCase().match(/[a-z]+/g) ?? []
      return { query: '', stems: [], unknown: [], ...row, words: words.slice(0, MAX_WORDS) }
    },

    /** The stems of a question and of corrections of its words. */
    async stems({ stems, words, unknown }: ParsedHiveQuery): Promise<string[]> {
      const forms = spellingVariants(words)
      const parted = unknown.flatMap(splitWord)
      const [near, there] = await Promise.all([
        neighbours(unknown),
        known([...forms, ...parted.flat()]),
      ])
      const both = parted.filter((parts) => parts.every((part) => there.has(part)))
      const meant = unknown.flatMap((word) => {
        const parts = both.filter(([one, other]) => one + other === word)
        return parts.length > 0 ? parts.flat() : closestWord(word, near)
      })
      const said = [...forms.filter((form) => there.has(form)), ...meant]
      if (said.length === 0) return [...stems]
      const [row] = await sql<{ stems: string[] }[]>`
        select tsvector_to_array(to_tsvector('english', ${said.join(' ')})) as stems`
      return [...new Set([...stems, ...(row?.stems ?? [])])]
    },
  }
}

interface SimilarWord {
  readonly asked: string
  readonly word: string
}

/** The word with the fewest typing errors, if they are few; of several the most similar. */
function closestWord(word: string, near: readonly SimilarWord[]): string[] {
  const most = maxEditDistanceFor(word)
  const [best] = near
    .filter(({ asked }) => asked === word)
    .map((one) => ({ word: one.word, slips: editDistance(word, one.word, most) }))
    .sort((a, b) => a.slips - b.slips)
  return best === undefined || best.slips > most ? [] : [best.word]
}

/** Joins pairs of words, and adds British and American spellings. */
function spellingVariants(words: readonly string[]): string[] {
  const together = words.slice(1).map((word, at) => (words[at] ?? '') + word)
  const spelt = words.flatMap((word) => [
    word.replace(/is(e[drs]?|ing|ations?)$/, 'iz$1'),
    word.replace(/iz(e[drs]?|ing|ations?)$/, 'is$1'),
    word.replace('our', 'or'),
    word.replace('or', 'our'),
  ])
  return [...new Set([...together, ...spelt])].filter(
    (word) => word.length >= 4 && word.length <= 32 && !words.includes(word),
  )
}

/** Splits a word in two of four letters or more, at every possible position. */
function splitWord(word: string): [string, string][] {
  const cuts = Array.from({ length: Math.max(0, word.length - 7) }, (_, at) => at + 4)
  return cuts.map((at) => [word.slice(0, at), word.slice(at)])
}
