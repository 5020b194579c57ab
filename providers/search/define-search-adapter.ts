import Type, { type Static, type TSchema } from 'typebox'
import type { UpstreamClient } from '../upstream/upstream-client.ts'
import { toTruncatedLine, htmlSnippetToText } from '../text/html-snippet-to-text.ts'
import type { WebSearchResult, WebSearchQuery } from './web-search-port.ts'

/** Builds search adapters from a request and a response mapping. */

export interface SearchAdapter {
  readonly name: string
  /** Returns results, best first; rejects when it cannot answer. */
  search(wanted: WebSearchQuery, signal: AbortSignal): Promise<SearchAdapterAnswer>
}
interface SearchAdapterAnswer {
  readonly results: readonly WebSearchResult[]
  readonly mode: 'live' | 'fixture'
}

const MAX_RESULT_TITLE_CHARS = 200
const MAX_RESULT_SNIPPET_CHARS = 500

interface SearchAdapterDefinition<T extends TSchema> {
  readonly name: string
  readonly schema: T
  readonly request: (wanted: Omit<WebSearchQuery, 'owner'>) => {
    readonly url: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: unknown
  }
  /** Maps to title, address and snippet; both texts may contain HTML. */
  readonly read: (data: Static<T>) => readonly RawSearchResult[]
}
type RawSearchResult = readonly [title: string, url: string, snippet: string]

/** Defines an adapter by its requests and responses. */
export const defineSearchAdapter =
  <T extends TSchema>({ name, schema, request, read }: SearchAdapterDefinition<T>) =>
  (upstream: UpstreamClient, timeoutMs: number): SearchAdapter => ({
    name,
    async search(wanted, signal) {
      const { owner } = wanted
      const upstreamRequest = {
        provider: name,
        owner,
        ...request(wanted),
        schema,
        timeoutMs,
        signal,
      }
      const { data, mode } = await upstream.json(upstreamRequest)
      const results = read(data).flatMap((hit) => toSearchResults(hit, name))
      return { results: results.slice(0, wanted.limit), mode }
    },
  })

function toSearchResults([title, url, snippet]: RawSearchResult, name: string): WebSearchResult[] {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return []
  const shown = htmlSnippetToText(title, MAX_RESULT_TITLE_CHARS)
  return [
    {
      title: shown === '' ? toTruncatedLine(url, MAX_RESULT_TITLE_CHARS) : shown,
      url: new URL(url).href,
      snippet: htmlSnippetToText(snippet, MAX_RESULT_SNIPPET_CHARS),
      source: name,
    },
  ]
}

/** Absent, null or text. */
export const OptionalNullableString = Type.Optional(Type.Union([Type.String(), Type.Null()]))
/** Encodes a query for a URL. */
export const encodeSearchQuery = (query: string) => encodeURIComponent(query)
