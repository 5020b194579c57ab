import type { UpstreamClient } from '../upstream/upstream-client.ts'
import { braveAdapter, searxngAdapter, tavilyAdapter } from './configured-engines.ts'
import {
  duckduckgoAdapter,
  hackernewsAdapter,
  stackexchangeAdapter,
  wikipediaAdapter,
} from './public-engines.ts'
import type { SearchAdapter } from './define-search-adapter.ts'

export interface SearchSettings {
  /** An instance with `json` among its formats; null for none. */
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

/** Where each answers, unless the operator says otherwise. */
export const PUBLIC_SEARCH_URLS = {
  brave: 'https://api.search.brave.com',
  tavily: 'https://api.tavily.com',
  wikipedia: 'https://en.wikipedia.org',
  hackernews: 'https://hn.algolia.com',
  stackexchange: 'https://api.stackexchange.com',
  duckduckgo: 'https://api.duckduckgo.com',
}

/** The longest one source is waited for. */
const SEARCH_TIMEOUT_MS = 4_000

/** The sources in the order they are asked: the operator's own, then those open to everybody. */
export function createSearchAdapters(
  upstream: UpstreamClient,
  settings: SearchSettings,
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
