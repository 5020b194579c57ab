/** Searches of the web, by what the operator has and what is open to everybody. */
export interface WebSearchClient {
  /** The sources of the web, first asked first. */
  readonly providers: readonly string[]
  /**
   * The answer of the first source that has one; where none of them answers at all, what the public
   * Hive says (`degraded`). `told` hears of each source that was asked. Rejects with the reason of the
   * signal.
   */
  searchWeb(
    wanted: WebSearchQuery,
    signal: AbortSignal,
    told?: (heard: SearchAdapterStatus) => void,
  ): Promise<WebSearchAnswer>
  /** What the public Hive says, in the same form. */
  searchHive(wanted: Omit<WebSearchQuery, 'owner'>): Promise<readonly HiveEntryResult[]>
}

/** A source that was asked: how much it found, or why it did not answer. */
export interface SearchAdapterStatus {
  readonly source: string
  readonly outcome: string
}

export interface WebSearchQuery {
  readonly query: string
  readonly limit: number
  /** For whom it is asked: places at a source are shared out by owner. */
  readonly owner: string
}

export interface WebSearchAnswer {
  readonly results: readonly WebSearchResult[]
  /** Who answered. */
  readonly source: string
  readonly mode: 'live' | 'fixture'
  /** No source of the web answered: these are entries of the Hive. */
  readonly degraded: boolean
  /** Sources that were asked and failed, by the code of their error. */
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

/** An entry of the Hive in the form of a result. */
export interface HiveEntryResult extends WebSearchResult {
  readonly content: string
  /** The agent. */
  readonly author: string
  /** ISO 8601. */
  readonly at: string
}
