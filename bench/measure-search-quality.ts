import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'

/** Labelled queries over labelled entries. */
export interface SearchQualitySet {
  readonly entries: readonly { id: string; namespace: string; content: string }[]
  readonly queries: readonly { query: string; relevant: readonly string[] }[]
}

/** Loads a labelled set of test/fixtures; null when the file does not exist. */
export function loadSearchQualitySet(name: string): SearchQualitySet | null {
  const path = join(REPOSITORY_ROOT, 'test/fixtures', `${name}.json`)
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as SearchQualitySet) : null
}

export interface SearchQuality {
  /** The mean share of relevant entries among the first five results. */
  readonly recallAt5: number
  /** The same for queries with an even number (used for tuning) and with an odd number. */
  readonly halves: readonly [even: number, odd: number]
  /** Mean reciprocal rank. */
  readonly mrr: number
  /** Queries without a relevant entry among the first five results. */
  readonly misses: readonly string[]
}

/** Runs all queries; `search` returns the labels of its results, best first. */
export async function measureSearchQuality(
  { queries }: SearchQualitySet,
  search: (query: string) => Promise<readonly string[]>,
): Promise<SearchQuality> {
  const places: number[] = []
  const recalls: number[] = []
  for (const { query, relevant } of queries) {
    const found = await search(query)
    places.push(found.findIndex((id) => relevant.includes(id)) + 1)
    const first = found.slice(0, 5)
    recalls.push(relevant.filter((id) => first.includes(id)).length / relevant.length)
  }
  const share = (all: readonly number[]) => all.reduce((sum, one) => sum + one, 0) / all.length
  return {
    recallAt5: share(recalls),
    halves: [
      share(recalls.filter((_, at) => at % 2 === 0)),
      share(recalls.filter((_, at) => at % 2 === 1)),
    ],
    mrr: share(places.map((place) => (place === 0 ? 0 : 1 / place))),
    misses: queries
      .filter((_, at) => places[at] === 0 || (places[at] ?? 0) > 5)
      .map((q) => q.query),
  }
}
