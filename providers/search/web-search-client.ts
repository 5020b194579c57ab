import type { Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { HiveReader } from '../hive/hive-port.ts'
import { toTruncatedLine } from '../text/html-snippet-to-text.ts'
import type {
  WebSearchResult,
  HiveEntryWebSearchResult,
  WebSearchClient,
  WebSearchAnswer,
  WebSearchQuery,
} from './web-search-port.ts'
import type { SearchAdapter } from './define-search-adapter.ts'

/** Web search over several engines, with the Hive as fallback. */

export interface WebSearchClientDeps {
  /** In query order. */
  readonly adapters: readonly SearchAdapter[]
  readonly hive: Pick<HiveReader, 'search'>
  readonly clock: Clock
  /** The base URL of links to Hive entries. */
  readonly publicUrl: string
}

const HIVE_SOURCE = 'hive'
const MAX_HIVE_TITLE_CHARS = 80
const MAX_HIVE_SNIPPET_CHARS = 500

/** Creates a client that queries the engines in order until one has results. */
export function createWebSearchClient({
  adapters,
  hive,
  clock,
  publicUrl,
}: WebSearchClientDeps): WebSearchClient {
  async function local({
    query,
    limit,
  }: Omit<WebSearchQuery, 'owner'>): Promise<HiveEntryWebSearchResult[]> {
    const { entries } = await hive.search({
      text: query,
      namespace: null,
      minConfidence: 0,
      limit,
      agentId: null,
      reader: '',
      at: clock.now(),
    })
    return entries.map(({ id, content, author, at }) => ({
      title: toTruncatedLine(content, MAX_HIVE_TITLE_CHARS),
      url: `${publicUrl}/api/hive/public?q=${encodeURIComponent(query)}#${id}`,
      snippet: toTruncatedLine(content, MAX_HIVE_SNIPPET_CHARS),
      source: HIVE_SOURCE,
      content,
      author,
      at,
    }))
  }

  return {
    providers: adapters.map(({ name }) => name),
    searchHive: local,
    async searchWeb(wanted, signal, onStatus) {
      const failed: { source: string; code: string }[] = []
      let empty: WebSearchAnswer | null = null
      for (const { name, search } of adapters) {
        try {
          const { results, mode } = await search(wanted, signal)
          const answer = { results, source: name, mode, degraded: false, failed }
          onStatus?.({ source: name, outcome: `${results.length} results` })
          if (results.length > 0) return answer
          // An empty answer is no failure, and another engine may have results.
          empty ??= answer
        } catch (error) {
          if (signal.aborted || !(error instanceof ServiceError)) throw error
          failed.push({ source: name, code: error.code })
          onStatus?.({ source: name, outcome: error.code })
        }
      }
      if (empty !== null) return empty
      const entries = await local(wanted)
      const results = entries.map(({ title, url, snippet, source }): WebSearchResult => {
        return { title, url, snippet, source }
      })
      return { results, source: HIVE_SOURCE, mode: 'live', degraded: true, failed }
    },
  }
}
