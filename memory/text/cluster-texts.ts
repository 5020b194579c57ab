import type { YieldToEventLoop } from './tokenizer.ts'
import { termVectorSimilarity, toTfIdfVectors, type TermVector } from './tf-idf-term-vectors.ts'

/** Clusters texts by similarity. */

export interface TextCluster {
  readonly members: readonly number[]
  readonly centre: number
  readonly keywords: readonly string[]
}

/** More texts are not compared: each is a cluster of its own. */
const MAX_CLUSTERED_TEXTS = 200
const ROWS_A_SLICE = 8
const KEYWORDS = 5

/**
 * Repeatedly merges the two clusters with the highest average similarity, until none exceeds the
 * threshold and at most `maxClusters` are left. The order of the texts breaks ties, so the result is
 * deterministic. Texts are given as their stems.
 */
export async function clusterTexts(
  texts: readonly (readonly string[])[],
  { threshold, maxClusters }: { threshold: number; maxClusters: number },
  breathe: YieldToEventLoop,
): Promise<TextCluster[]> {
  const bags = toTfIdfVectors(texts.slice(0, MAX_CLUSTERED_TEXTS))
  const likeness = await likenesses(bags, breathe)
  let groups = bags.map((_, index) => [index])
  // For two clusters: the sum over the pairs of their texts.
  const sums = likeness.map((row) => [...row])
  for (let step = 1; groups.length > 1; step += 1) {
    const nearest = closestPair(groups, sums)
    if (nearest === null || (nearest.likeness < threshold && groups.length <= maxClusters)) break
    groups = mergeClusters(groups, sums, nearest.one, nearest.other)
    if (step % 5 === 0) await breathe()
  }
  const rest = texts.slice(MAX_CLUSTERED_TEXTS).map((_, at) => [MAX_CLUSTERED_TEXTS + at])
  return [...groups, ...rest]
    .map((members) => [...members].sort((a, b) => a - b))
    .sort((a, b) => b.length - a.length || (a[0] ?? 0) - (b[0] ?? 0))
    .map((members) => ({
      members,
      centre: centreOf(members, likeness),
      keywords: clusterKeywords(members, bags),
    }))
}

async function likenesses(
  bags: readonly TermVector[],
  breathe: YieldToEventLoop,
): Promise<number[][]> {
  const rows: number[][] = bags.map(() => [])
  for (const [one, bag] of bags.entries()) {
    if (one % ROWS_A_SLICE === 0) await breathe()
    for (let other = 0; other < one; other += 1) {
      const value = termVectorSimilarity(bag, bags[other] ?? new Map<string, number>())
      set(rows, one, other, value)
      set(rows, other, one, value)
    }
    set(rows, one, one, 1)
  }
  return rows
}

const at = (rows: readonly (readonly number[])[], one: number, other: number): number =>
  rows[one]?.[other] ?? 0
function set(rows: number[][], one: number, other: number, value: number): void {
  const row = rows[one]
  if (row !== undefined) row[other] = value
}

function closestPair(groups: readonly number[][], sums: readonly number[][]) {
  let best: { one: number; other: number; likeness: number } | null = null
  for (let one = 0; one < groups.length; one += 1) {
    for (let other = one + 1; other < groups.length; other += 1) {
      const pairs = (groups[one]?.length ?? 1) * (groups[other]?.length ?? 1)
      const likeness = at(sums, one, other) / pairs
      if (best === null || likeness > best.likeness + 1e-12) best = { one, other, likeness }
    }
  }
  return best
}

/** Merges `other` into `one`; the sums are updated in place. */
function mergeClusters(groups: readonly number[][], sums: number[][], one: number, other: number) {
  for (let third = 0; third < groups.length; third += 1) {
    const value = at(sums, one, third) + at(sums, other, third)
    set(sums, one, third, value)
    set(sums, third, one, value)
  }
  sums.splice(other, 1)
  for (const row of sums) row.splice(other, 1)
  return groups
    .map((members, index) => (index === one ? [...members, ...(groups[other] ?? [])] : members))
    .filter((_, index) => index !== other)
}

function centreOf(members: readonly number[], likeness: readonly number[][]): number {
  const sum = (one: number) => members.reduce((all, other) => all + at(likeness, one, other), 0)
  return members.reduce((best, one) => (sum(one) > sum(best) + 1e-12 ? one : best), members[0] ?? 0)
}

/** The stems with the most weight over the members. */
function clusterKeywords(members: readonly number[], bags: readonly TermVector[]): string[] {
  const weights = new Map<string, number>()
  for (const member of members) {
    for (const [stem, weight] of bags[member] ?? [])
      weights.set(stem, (weights.get(stem) ?? 0) + weight)
  }
  return [...weights]
    .sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))
    .slice(0, KEYWORDS)
    .map(([stem]) => stem)
}
