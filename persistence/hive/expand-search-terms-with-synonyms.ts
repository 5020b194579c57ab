import type { SearchThesaurus } from './search-thesaurus.ts'

/** A search term and its weight relative to the words of the question. */
export interface WeightedSearchTerm {
  /** In PostgreSQL's query syntax. */
  readonly query: string
  readonly stems: readonly string[]
  readonly factor: number
  /** Terms of one meaning count once, by the best match. */
  readonly meaning: number
}

/** Weights of question words and of synonyms. */
const QUESTION_WORD_WEIGHT = 0.3
const SYNONYM_WEIGHT = 0.7

/** The terms to search for the stems of a question: the stems and their synonyms. */
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

/** A stem as a query. */
const quoteStem = (stem: string): string => `'${stem.replace(/['\\]/g, (sign) => sign + sign)}'`
