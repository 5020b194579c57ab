import type { TokenizedSentence } from './tokenizer.ts'

/** Hashed feature vectors of texts. */

const SIZE = 256
const TRIGRAM_WEIGHT = 0.3

/**
 * Stems and hashed trigrams in 256 numbers of length 1; all zero without words. Stored memories
 * keep these vectors: another hash or weight would make old and new ones incomparable.
 */
export function toHashedVector(sentences: readonly TokenizedSentence[]): number[] {
  const counts = new Map<string, number>()
  const count = (feature: string) => counts.set(feature, (counts.get(feature) ?? 0) + 1)
  for (const stem of sentences.flatMap(({ stems }) => stems)) {
    count(stem)
    const framed = `^${stem}$`
    for (let at = 0; at + 3 <= framed.length; at += 1) count(`3:${framed.slice(at, at + 3)}`)
  }
  const vector = Array<number>(SIZE).fill(0)
  for (const [feature, times] of counts) {
    const weight = (1 + Math.log(times)) * (feature.startsWith('3:') ? TRIGRAM_WEIGHT : 1)
    const hash = fnv1a(feature)
    const slot = hash % SIZE
    // A sign per feature: features that share a slot cancel as often as they add up.
    vector[slot] = (vector[slot] ?? 0) + (hash >>> 31 === 0 ? weight : -weight)
  }
  const length = Math.hypot(...vector)
  return length === 0 ? vector : vector.map((value) => round(value / length))
}

/** The cosine of two unit vectors; negative values are chance and count as zero. */
export function unitVectorSimilarity(one: readonly number[], other: readonly number[]): number {
  const product = one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0)
  return Math.max(0, Math.min(1, Math.round(product * 1e4) / 1e4))
}

const round = (value: number): number => Math.round(value * 1e6) / 1e6

/** FNV-1a over UTF-16 units, 32 bits. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at += 1) {
    hash ^= text.charCodeAt(at)
    hash = Math.imul(hash, 0x01000193)
  }
  return hash >>> 0
}
