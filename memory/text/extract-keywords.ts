import type { TokenizedSentence, TextToken } from './tokenizer.ts'

/** Extracts the keywords of a text. */

export interface WeightedKeyword {
  readonly text: string
  readonly score: number
}

interface Term {
  readonly spellings: Map<string, number>
  readonly first: number
  readonly words: number
  count: number
}

/**
 * Scores words and pairs of neighbours by frequency and early position; a repeated pair outweighs
 * its words. A term is shown in its most frequent spelling.
 */
export function extractKeywords(
  sentences: readonly TokenizedSentence[],
  most: number,
): WeightedKeyword[] {
  const terms = new Map<string, Term>()
  let place = 0
  for (const { tokens } of sentences) {
    for (const [at, token] of tokens.entries()) {
      if (token.stop || token.kind !== 'word') continue
      place += 1
      countTerm(terms, [token], place)
      const next = tokens[at + 1]
      if (next !== undefined && !next.stop && next.kind === 'word')
        countTerm(terms, [token, next], place)
    }
  }
  const scored = [...terms.values()]
    .filter(({ words, count }) => words === 1 || count > 1)
    .map((term) => ({ text: spelling(term), score: strength(term, place) }))
    .sort((a, b) => b.score - a.score || (a.text < b.text ? -1 : 1))
  const best = scored[0]?.score ?? 1
  return withoutParts(scored)
    .slice(0, most)
    .map(({ text, score }) => ({ text, score: Math.round((score / best) * 1e4) / 1e4 }))
}

function countTerm(terms: Map<string, Term>, tokens: readonly TextToken[], first: number): void {
  const key = tokens.map(({ stem }) => stem).join(' ')
  const term = terms.get(key) ?? { spellings: new Map(), first, words: tokens.length, count: 0 }
  const text = tokens.map(({ word }) => word).join(' ')
  term.count += 1
  term.spellings.set(text, (term.spellings.get(text) ?? 0) + 1)
  terms.set(key, term)
}

const strength = ({ count, first, words }: Term, places: number): number =>
  count * (words === 2 ? 1.6 : 1) * (1 + 0.5 * (1 - first / (places + 1)))

const spelling = ({ spellings }: Term): string =>
  [...spellings].reduce((best, one) => (one[1] > best[1] ? one : best))[0]

/** Drops words that are part of a stronger pair. */
function withoutParts(scored: readonly WeightedKeyword[]): WeightedKeyword[] {
  const said = new Set<string>()
  return scored.filter(({ text }) => {
    const words = text.split(' ')
    if (words.length === 1 && said.has(text)) return false
    for (const word of words) said.add(word)
    return true
  })
}
