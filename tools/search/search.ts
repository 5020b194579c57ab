import type { Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { Hive } from '../ports.ts'
import { line } from './plain.ts'
import type { Found, FoundEntry, Search, SearchAnswer, SearchWanted } from './port.ts'
import type { SearchAdapter } from './source.ts'

export interface SearchParts {
  /** First asked first. */
  readonly adapters: readonly SearchAdapter[]
  readonly hive: Pick<Hive, 'search'>
  readonly clock: Clock
  /** Where the Hive can be read. */
  readonly publicUrl: string
}

const LOCAL = 'hive'
const LONGEST_TITLE = 80
const LONGEST_SNIPPET = 500

/** Asks the sources one after the other: the first that has results answers. */
export function createSearch({ adapters, hive, clock, publicUrl }: SearchParts): Search {
  async function local({ query, limit }: Omit<SearchWanted, 'owner'>): Promise<FoundEntry[]> {
    const { entries } = await hive.search({
      text: query,
      namespace: null,
      minConfidence: 0,
      limit,
      agentId: null,
      reader: '',
      at: clock.now(),
    })
    return entries.map(({ id, content, agentId, at }) => ({
      title: line(content, LONGEST_TITLE),
      url: `${publicUrl}/api/hive/public?q=${encodeURIComponent(query)}#${id}`,
      snippet: line(content, LONGEST_SNIPPET),
      source: LOCAL,
      content,
      author: agentId,
      at,
    }))
  }

  return {
    providers: adapters.map(({ name }) => name),
    hive: local,
    async web(wanted, signal, told) {
      const failed: { source: string; code: string }[] = []
      let empty: SearchAnswer | null = null
      for (const { name, ask } of adapters) {
        try {
          const { results, mode } = await ask(wanted, signal)
          const answer = { results, source: name, mode, degraded: false, failed }
          told?.({ source: name, outcome: `${results.length} results` })
          if (results.length > 0) return answer
          // One that knows nothing is healthy, and another may know something.
          empty ??= answer
        } catch (error) {
          if (signal.aborted || !(error instanceof ServiceError)) throw error
          failed.push({ source: name, code: error.code })
          told?.({ source: name, outcome: error.code })
        }
      }
      if (empty !== null) return empty
      const entries = await local(wanted)
      const results = entries.map(({ title, url, snippet, source }): Found => {
        return { title, url, snippet, source }
      })
      return { results, source: LOCAL, mode: 'live', degraded: true, failed }
    },
  }
}
