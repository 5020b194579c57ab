import type { UpstreamClient } from '../upstream/upstream-client.ts'
import {
  braveAdapter,
  searxngAdapter,
  tavilyAdapter,
} from './searxng-brave-tavily-search-adapters.ts'
import {
  duckduckgoAdapter,
  hackernewsAdapter,
  stackexchangeAdapter,
  wikipediaAdapter,
} from './public-search-engines.ts'
import type { SearchAdapter } from './define-search-adapter.ts'

/** Selects the web search engines of this station. */

export interface WebSearchSettings {
  /** A SearXNG instance with the format `json`; null for none. */
  readonly searxng: string | null
  readonly brave: string
  readonly braveKey: string | null
  readonly tavily: string
  readonly tavilyKey: string | null
  readonly wikipedia: string
  readonly hackernews: string
  readonly stackexchange: string
  readonly duckduckgo: string
}

/** Default addresses of the public engines. */
export const DEFAULT_SEARCH_ENGINE_URLS = {
  brave: 'https://api.search.brave.com',
  tavily: 'https://api.tavily.com',
  wikipedia: 'https://en.wikipedia.org',
  hackernews: 'https://hn.algolia.com',
  stackexchange: 'https://api.stackexchange.com',
  duckduckgo: 'https://api.duckduckgo.com',
}

/** Time limit per engine. */
const SEARCH_TIMEOUT_MS = 4_000

/** Returns the engines in query order: configured ones, then public ones. */
export function createSearchAdapters(
  upstream: UpstreamClient,
  settings: WebSearchSettings,
  timeoutMs = SEARCH_TIMEOUT_MS,
): SearchAdapter[] {
  const { searxng, braveKey, tavilyKey } = settings
  const sources = [
    ...(searxng === null ? [] : [searxngAdapter(searxng)]),
    ...(braveKey === null ? [] : [braveAdapter(settings.brave, braveKey)]),
    ...(tavilyKey === null ? [] : [tavilyAdapter(settings.tavily, tavilyKey)]),
    wikipediaAdapter(settings.wikipedia),
    hackernewsAdapter(settings.hackernews),
    stackexchangeAdapter(settings.stackexchange),
    duckduckgoAdapter(settings.duckduckgo),
  ]
  return sources.map((source) => source(upstream, timeoutMs))
}
