import type { Thesaurus } from './thesaurus.ts'

/** Something that is looked for, and what it counts beside the words of the question. */
export interface Term {
  /** As PostgreSQL spells a query. */
  readonly query: string
  readonly stems: readonly string[]
  readonly factor: number
  /** Terms of one meaning count once, by the best of them. */
  readonly meaning: number
}

/** What a word counts that only asks, and what another way to say a word does. */
const FRAMING = 0.3
const SAME = 0.7

/** What to look for, given the stems of a question: each of them, and other ways to say the same. */
export function termsOf(stems: readonly string[], known: Thesaurus): Term[] {
  const own = stems.map((stem, meaning) => ({
    query: quoted(stem),
    stems: [stem],
    factor: known.isFraming(stem) ? FRAMING : 1,
    meaning,
  }))
  const others = known.others(stems).map(({ query, stems: said, of }) => {
    const meaning = stems.findIndex((stem) => of.includes(stem))
    return { query, stems: said, factor: SAME * (own[meaning]?.factor ?? 1), meaning }
  })
  return [...own, ...others]
}

/** A stem as a query of its own. */
const quoted = (stem: string): string => `'${stem.replace(/['\\]/g, (sign) => sign + sign)}'`
