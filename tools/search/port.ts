/** Searches of the web, by what the operator has and what is open to everybody. */
export interface Search {
  /** The sources of the web, first asked first. */
  readonly providers: readonly string[]
  /**
   * The answer of the first source that has one; where none of them answers at all, what the public
   * Hive says (`degraded`). `told` hears of each source that was asked. Rejects with the reason of the
   * signal.
   */
  web(
    wanted: SearchWanted,
    signal: AbortSignal,
    told?: (heard: AdapterHeard) => void,
  ): Promise<SearchAnswer>
  /** What the public Hive says, in the same form. */
  hive(wanted: Omit<SearchWanted, 'owner'>): Promise<readonly FoundEntry[]>
}

/** A source that was asked: how much it found, or why it did not answer. */
export interface AdapterHeard {
  readonly source: string
  readonly outcome: string
}

export interface SearchWanted {
  readonly query: string
  readonly limit: number
  /** For whom it is asked: places at a source are shared out by owner. */
  readonly owner: string
}

export interface SearchAnswer {
  readonly results: readonly Found[]
  /** Who answered. */
  readonly source: string
  readonly mode: 'live' | 'fixture'
  /** No source of the web answered: these are entries of the Hive. */
  readonly degraded: boolean
  /** Sources that were asked and failed, by the code of their error. */
  readonly failed: readonly { readonly source: string; readonly code: string }[]
}

export interface Found {
  readonly title: string
  /** http or https. */
  readonly url: string
  /** Plain text; may be empty. */
  readonly snippet: string
  readonly source: string
}

/** An entry of the Hive in the form of a result. */
export interface FoundEntry extends Found {
  readonly content: string
  /** The agent. */
  readonly author: string
  /** ISO 8601. */
  readonly at: string
}
