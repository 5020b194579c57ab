import type { YieldToEventLoop, TokenizedSentence } from './tokenizer.ts'
import { termVectorSimilarity, toTfIdfVectors, type TermVector } from './tf-idf-term-vectors.ts'

/** Extractive summaries of texts. */

export interface RankedSentence {
  readonly text: string
  readonly source: number
  readonly index: number
  readonly score: number
}

interface Place extends RankedSentence {
  readonly bag: TermVector
}

const MAX_RANKED_SENTENCES = 400
const DAMPING = 0.85
const RANK_ITERATIONS = 30
const ROWS_A_SLICE = 8
/** Above this similarity two sentences say the same. */
const REPETITION = 0.6
/** Shorter ones are headings and fragments. */
const MIN_SENTENCE_STEMS = 3

/**
 * TextRank over the sentences of all texts: a sentence similar to many others ranks high; with a
 * query, so does one similar to it. Returned in text order, without repetitions, so there may be
 * fewer than requested.
 */
export async function summarizeTexts(
  texts: readonly (readonly TokenizedSentence[])[],
  query: readonly string[] | null,
  wanted: number,
  breathe: YieldToEventLoop,
): Promise<RankedSentence[]> {
  const share = Math.max(4, Math.floor(MAX_RANKED_SENTENCES / Math.max(1, texts.length)))
  const all = texts.flatMap((sentences, source) =>
    sentences.slice(0, share).map((sentence, index) => ({ sentence, source, index })),
  )
  const whole = all.filter(({ sentence }) => new Set(sentence.stems).size >= MIN_SENTENCE_STEMS)
  const candidates = (whole.length === 0 ? all : whole).slice(0, MAX_RANKED_SENTENCES)
  if (candidates.length === 0) return []
  const bags = toTfIdfVectors([...candidates.map(({ sentence }) => sentence.stems), query ?? []])
  const asked = bags.pop() ?? new Map<string, number>()
  const pull =
    query === null ? bags.map(() => 1) : bags.map((bag) => termVectorSimilarity(bag, asked))
  const ranks = await rankSentences(bags, pull, breathe)
  const best = Math.max(...ranks)
  const places = candidates.map(({ sentence, source, index }, at): Place => {
    const score = best === 0 ? 0 : Math.round(((ranks[at] ?? 0) / best) * 1e4) / 1e4
    return { text: sentence.text, source, index, score, bag: bags[at] ?? new Map<string, number>() }
  })
  return pickDistinct(places, wanted)
}

/** Power iteration; `pull` is the restart distribution. */
async function rankSentences(
  bags: readonly TermVector[],
  pull: readonly number[],
  breathe: YieldToEventLoop,
) {
  const size = bags.length
  // One typed array: many small objects would load the garbage collector.
  const edges = new Float64Array(size * size)
  for (const [from, bag] of bags.entries()) {
    if (from % ROWS_A_SLICE === 0) await breathe()
    for (let to = 0; to < from; to += 1) {
      const weight = termVectorSimilarity(bag, bags[to] ?? new Map<string, number>())
      if (weight < 0.05) continue
      edges[from * size + to] = weight
      edges[to * size + from] = weight
    }
  }
  const total = pull.reduce((sum, value) => sum + value, 0)
  const start = pull.map((value) => (total === 0 ? 1 / bags.length : value / total))
  const degree = bags.map((_, from) =>
    edges.subarray(from * size, (from + 1) * size).reduce((sum, weight) => sum + weight, 0),
  )
  let ranks = start
  for (let round = 0; round < RANK_ITERATIONS; round += 1) {
    const before = ranks
    const next = start.map((value) => (1 - DAMPING) * value)
    for (let from = 0; from < size; from += 1) {
      const share = (DAMPING * (before[from] ?? 0)) / (degree[from] || 1)
      for (let to = 0; to < size; to += 1)
        next[to] = (next[to] ?? 0) + share * (edges[from * size + to] ?? 0)
    }
    ranks = next
    if (round % 2 === 1) await breathe()
  }
  return ranks
}

function pickDistinct(places: readonly Place[], wanted: number): RankedSentence[] {
  const chosen: Place[] = []
  const inOrder = (a: RankedSentence, b: RankedSentence) => a.source - b.source || a.index - b.index
  for (const place of [...places].sort((a, b) => b.score - a.score || inOrder(a, b))) {
    if (chosen.length >= wanted) break
    if (chosen.every(({ bag }) => termVectorSimilarity(bag, place.bag) < REPETITION))
      chosen.push(place)
  }
  return chosen
    .sort(inOrder)
    .map(({ text, source, index, score }) => ({ text, source, index, score }))
}
