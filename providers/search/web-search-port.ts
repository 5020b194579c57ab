/** Web search with configured and public engines. */
export interface WebSearchClient {
  /** The web engines in query order. */
  readonly providers: readonly string[]
  /**
   * Returns the results of the first engine with some; when none answers, public Hive entries (`degraded`).
   * `onStatus` is called for each engine queried. Rejects with the signal's reason.
   */
  searchWeb(
    wanted: WebSearchQuery,
    signal: AbortSignal,
    onStatus?: (status: SearchEngineQueryOutcome) => void,
  ): Promise<WebSearchAnswer>
  /** Returns public Hive entries in the same form. */
  searchHive(wanted: Omit<WebSearchQuery, 'owner'>): Promise<readonly HiveEntryWebSearchResult[]>
}

/** The status of a queried engine: its number of results, or its failure. */
export interface SearchEngineQueryOutcome {
  readonly source: string
  readonly outcome: string
}

export interface WebSearchQuery {
  readonly query: string
  readonly limit: number
  /** Capacity of an engine is shared by owner. */
  readonly owner: string
}

export interface WebSearchAnswer {
  readonly results: readonly WebSearchResult[]
  /** The engine that answered. */
  readonly source: string
  readonly mode: 'live' | 'fixture'
  /** No web engine answered; the results are Hive entries. */
  readonly degraded: boolean
  /** Engines that failed, with their error codes. */
  readonly failed: readonly { readonly source: string; readonly code: string }[]
}

export interface WebSearchResult {
  readonly title: string
  /** http or https. */
  readonly url: string
  /** Plain text; may be empty. */
  readonly snippet: string
  readonly source: string
}

/** A Hive entry as a search result. */
export interface HiveEntryWebSearchResult extends WebSearchResult {
  readonly content: string
  /** The author's agent id where public places name it. */
  readonly author: string | null
  /** ISO 8601. */
  readonly at: string
}
