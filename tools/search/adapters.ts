import type { Upstream } from '../upstream/client.ts'
import { braveAt, searxngAt, tavilyAt } from './keyed.ts'
import { duckduckgoAt, hackernewsAt, stackexchangeAt, wikipediaAt } from './keyless.ts'
import type { SearchAdapter } from './source.ts'

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
export const PUBLIC_SEARCH = {
  brave: 'https://api.search.brave.com',
  tavily: 'https://api.tavily.com',
  wikipedia: 'https://en.wikipedia.org',
  hackernews: 'https://hn.algolia.com',
  stackexchange: 'https://api.stackexchange.com',
  duckduckgo: 'https://api.duckduckgo.com',
}

/** The longest one source is waited for. */
const ADAPTER_MS = 4_000

/** The sources in the order they are asked: the operator's own, then those open to everybody. */
export function searchAdapters(
  upstream: Upstream,
  settings: SearchSettings,
  timeoutMs = ADAPTER_MS,
): SearchAdapter[] {
  const { searxng, braveKey, tavilyKey } = settings
  const sources = [
    ...(searxng === null ? [] : [searxngAt(searxng)]),
    ...(braveKey === null ? [] : [braveAt(settings.brave, braveKey)]),
    ...(tavilyKey === null ? [] : [tavilyAt(settings.tavily, tavilyKey)]),
    wikipediaAt(settings.wikipedia),
    hackernewsAt(settings.hackernews),
    stackexchangeAt(settings.stackexchange),
    duckduckgoAt(settings.duckduckgo),
  ]
  return sources.map((source) => source(upstream, timeoutMs))
}
