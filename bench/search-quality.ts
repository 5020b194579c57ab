import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'

/** Labelled questions over labelled entries: which of them answer which question. */
export interface SearchQualitySet {
  readonly entries: readonly { id: string; namespace: string; content: string }[]
  readonly queries: readonly { query: string; relevant: readonly string[] }[]
}

/** A labelled set of test/fixtures; null where it is not there. */
export function loadSearchQualitySet(name: string): SearchQualitySet | null {
  const path = join(REPOSITORY_ROOT, 'test/fixtures', `${name}.json`)
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as SearchQualitySet) : null
}

export interface SearchQuality {
  /** The mean share of the right answers that are among the first five. */
  readonly recallAt5: number
  /** The same of the questions with an even number, by which a search may be tuned, and of the others. */
  readonly halves: readonly [even: number, odd: number]
  /** The mean of one over the place of the first right answer. */
  readonly mrr: number
  /** Questions with no right answer among the first five. */
  readonly misses: readonly string[]
}

/** Asks all questions; `search` answers with the labels it finds, the best first. */
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
