import type { SearchThesaurus } from './search-thesaurus.ts'

/** Something that is looked for, and what it counts beside the words of the question. */
export interface WeightedSearchTerm {
  /** As PostgreSQL spells a query. */
  readonly query: string
  readonly stems: readonly string[]
  readonly factor: number
  /** Terms of one meaning count once, by the best of them. */
  readonly meaning: number
}

/** What a word counts that only asks, and what another way to say a word does. */
const QUESTION_WORD_WEIGHT = 0.3
const SYNONYM_WEIGHT = 0.7

/** What to look for, given the stems of a question: each of them, and other ways to say the same. */
export function expandSearchTerms(
  stems: readonly string[],
  known: SearchThesaurus,
): WeightedSearchTerm[] {
  const own = stems.map((stem, meaning) => ({
    query: quoteStem(stem),
    stems: [stem],
    factor: known.isQuestionWord(stem) ? QUESTION_WORD_WEIGHT : 1,
    meaning,
  }))
  const others = known.findSynonyms(stems).map(({ query, stems: said, of }) => {
    const meaning = stems.findIndex((stem) => of.includes(stem))
    return { query, stems: said, factor: SYNONYM_WEIGHT * (own[meaning]?.factor ?? 1), meaning }
  })
  return [...own, ...others]
}

/** A stem as a query of its own. */
const quoteStem = (stem: string): string => `'${stem.replace(/['\\]/g, (sign) => sign + sign)}'`
