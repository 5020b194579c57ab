import type { Breathe, Sentence } from './reading.ts'
import { alike, weigh, type Bag } from './weights.ts'

export interface Chosen {
  readonly text: string
  readonly source: number
  readonly index: number
  readonly score: number
}

interface Place extends Chosen {
  readonly bag: Bag
}

const MOST_SENTENCES = 400
const DAMPING = 0.85
const ROUNDS = 30
const ROWS_A_SLICE = 8
/** Two sentences this much alike say the same. */
const REPETITION = 0.6
/** Shorter ones are headings and fragments. */
const FEWEST_STEMS = 3

/**
 * TextRank over the sentences of all texts: what is like many others matters; with a query, what is
 * like the query draws the rank. In the order of the texts; sentences that repeat a better one are
 * left out, so that there may be fewer than wanted.
 */
export async function summarise(
  texts: readonly (readonly Sentence[])[],
  query: readonly string[] | null,
  wanted: number,
  breathe: Breathe,
): Promise<Chosen[]> {
  const share = Math.max(4, Math.floor(MOST_SENTENCES / Math.max(1, texts.length)))
  const all = texts.flatMap((sentences, source) =>
    sentences.slice(0, share).map((sentence, index) => ({ sentence, source, index })),
  )
  const whole = all.filter(({ sentence }) => new Set(sentence.stems).size >= FEWEST_STEMS)
  const candidates = (whole.length === 0 ? all : whole).slice(0, MOST_SENTENCES)
  if (candidates.length === 0) return []
  const bags = weigh([...candidates.map(({ sentence }) => sentence.stems), query ?? []])
  const asked = bags.pop() ?? new Map<string, number>()
  const pull = query === null ? bags.map(() => 1) : bags.map((bag) => alike(bag, asked))
  const ranks = await rank(bags, pull, breathe)
  const best = Math.max(...ranks)
  const places = candidates.map(({ sentence, source, index }, at): Place => {
    const score = best === 0 ? 0 : Math.round(((ranks[at] ?? 0) / best) * 1e4) / 1e4
    return { text: sentence.text, source, index, score, bag: bags[at] ?? new Map<string, number>() }
  })
  return pick(places, wanted)
}

/** Power iteration; `pull` is where the walker starts again. */
async function rank(bags: readonly Bag[], pull: readonly number[], breathe: Breathe) {
  const size = bags.length
  // One block of numbers: as many small objects would keep the collector busy.
  const edges = new Float64Array(size * size)
  for (const [from, bag] of bags.entries()) {
    if (from % ROWS_A_SLICE === 0) await breathe()
    for (let to = 0; to < from; to += 1) {
      const weight = alike(bag, bags[to] ?? new Map<string, number>())
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
  for (let round = 0; round < ROUNDS; round += 1) {
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

function pick(places: readonly Place[], wanted: number): Chosen[] {
  const chosen: Place[] = []
  const inOrder = (a: Chosen, b: Chosen) => a.source - b.source || a.index - b.index
  for (const place of [...places].sort((a, b) => b.score - a.score || inOrder(a, b))) {
    if (chosen.length >= wanted) break
    if (chosen.every(({ bag }) => alike(bag, place.bag) < REPETITION)) chosen.push(place)
  }
  return chosen
    .sort(inOrder)
    .map(({ text, source, index, score }) => ({ text, source, index, score }))
}
