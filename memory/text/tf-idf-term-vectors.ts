/** The stems of a text with their weights; a unit vector. */
export type TermVector = ReadonlyMap<string, number>

/** Weighs stems by tf-idf over the given texts: stems in all of them distinguish none. */
export function toTfIdfVectors(texts: readonly (readonly string[])[]): TermVector[] {
  const having = new Map<string, number>()
  for (const stems of texts) {
    for (const stem of new Set(stems)) having.set(stem, (having.get(stem) ?? 0) + 1)
  }
  const rarity = (stem: string) => Math.log(1 + texts.length / (having.get(stem) ?? 1))
  return texts.map((stems) => {
    const counts = new Map<string, number>()
    for (const stem of stems) counts.set(stem, (counts.get(stem) ?? 0) + 1)
    const raw = [...counts].map(
      ([stem, times]) => [stem, (1 + Math.log(times)) * rarity(stem)] as const,
    )
    const length = Math.hypot(...raw.map(([, weight]) => weight))
    return new Map(raw.map(([stem, weight]) => [stem, length === 0 ? 0 : weight / length]))
  })
}

/** The cosine of two vectors, 0 to 1. */
export function termVectorSimilarity(one: TermVector, other: TermVector): number {
  const [small, large] = one.size < other.size ? [one, other] : [other, one]
  let sum = 0
  for (const [stem, weight] of small) sum += weight * (large.get(stem) ?? 0)
  return Math.min(1, sum)
}
