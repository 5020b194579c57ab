/** Interfaces to the Hive, its watches and published strategies. */

export interface HiveSearchRequest {
  readonly text: string
  readonly namespace: string | null
  readonly minConfidence: number
  readonly limit: number
  /** The requesting agent, which sees its own private entries; null sees public ones only. */
  readonly agentId: string | null
  /** The reader whose reads count once per UTC day: the agent, or the visitor without a key. */
  readonly reader: string
  readonly at: number
}

export interface HiveSearchHit {
  readonly id: string
  readonly content: string
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  /** The author's id where public places name it, and for the author. */
  readonly author: string | null
  /** ISO 8601. */
  readonly at: string
  /** False when this reader has read it today already, or is its author. */
  readonly firstReadToday: boolean
}

export interface HiveDomainTrend {
  readonly namespace: string
  readonly reads: number
  readonly writes: number
  /** Callers that have paid with money from outside. */
  readonly payers: number
  readonly zScore: number
}

export interface HiveToolTrend {
  readonly slug: string
  readonly calls: number
  readonly payers: number
  readonly zScore: number
}

export interface HiveTrends {
  readonly domains: readonly HiveDomainTrend[]
  readonly tools: readonly HiveToolTrend[]
  /** Milliseconds since the epoch. */
  readonly generatedAt: number
}

/** The shared memory of agents. */
export interface HiveReader {
  /** Whether free reads, and reads paid with promotional credits, owe a royalty (decision 105). */
  readonly promoRoyalties: boolean
  search(query: HiveSearchRequest): Promise<{ entries: readonly HiveSearchHit[]; total: number }>
  /** Compares the last 24 hours with the seven days before; strongest trend first. */
  trending(limit: number): Promise<HiveTrends>
}

/** An entry by id, visible to any caller. */
export interface HiveEntrySummary {
  readonly id: string
  readonly agentId: string
  readonly isPublic: boolean
}

export interface HiveWatch {
  readonly watchId: string
  readonly keyword: string
  readonly namespace: string | null
  /** ISO 8601. */
  readonly createdAt: string
  readonly matches: number
}

export interface WatchedEntryMatch {
  /** Decimal; the cursor after this match. */
  readonly cursor: string
  readonly watchId: string
  readonly matchedAt: string
  readonly entry: {
    readonly id: string
    readonly content: string
    readonly confidence: number
    readonly namespace: string
    /** The author's id where public places name it. */
    readonly author: string | null
    readonly at: string
    readonly firstReadToday: boolean
  }
}

/** The featured slot of the Hive, and the watches of agents. */
export interface HiveWatchesAndFeaturedSlot {
  entry(id: string): Promise<HiveEntrySummary | null>
  /** Returns when the featured slot becomes free, in milliseconds; null when it is free. */
  featureFreeAt(at: number): Promise<number | null>
  /**
   * Reserves the featured slot briefly for a call; its commit extends the reservation. Returns null, or when
   * the slot becomes free where another call has it.
   */
  takeFeature(callId: string, at: number): Promise<number | null>
  /** Returns whether the keyword contains a searchable word. */
  isWatchable(keyword: string): Promise<boolean>
  /** Returns whether the agent has this watch and it has not ended. */
  hasWatch(agentId: string, watchId: string): Promise<boolean>
  /** Returns the agent's watches with their match counts, at most a thousand each. */
  watchesOf(agentId: string): Promise<readonly HiveWatch[]>
  /** Returns new matches of the agent's watches, or of one of them, after a cursor, oldest first. */
  matchesOf(request: {
    readonly agentId: string
    readonly watchId: string | null
    readonly after: string | null
    readonly limit: number
    readonly at: number
  }): Promise<readonly WatchedEntryMatch[]>
}

/** The outcome of a reservation. */
export type HiveTextReservation =
  /** Reserved for an entry with this id. */
  | { readonly state: 'taken'; readonly id: string }
  /** The author has an entry with the same text. */
  | {
      readonly state: 'written'
      readonly id: string
      readonly namespace: string
      readonly at: Date
    }
  /** A near copy of this public entry of another author. */
  | { readonly state: 'copy'; readonly id: string }
  /** Another running call is writing it, or a text that may be its copy. */
  | { readonly state: 'pending' }

/** A text to be written. */
interface NewHiveText {
  readonly agentId: string
  readonly isPublic: boolean
  readonly content: string
}

/** Ensures that each text has one entry. */
export interface HiveTextReservations {
  /**
   * Reserves a text for an entry written in the commit of the call that `claimant` names; a retry of that
   * call gets the same id.
   */
  claim(text: NewHiveText, entryId: string, claimant: string): Promise<HiveTextReservation>
  /** Releases the text of an entry that was not written. */
  release(text: NewHiveText, entryId: string): Promise<void>
}

export interface PublishedStrategy {
  readonly id: string
  readonly agentId: string
  /** Whether public places name the author with it. */
  readonly isAuthorPublic: boolean
  readonly title: string
  readonly description: string
  readonly tool: string | null
  readonly chain: string | null
  readonly params: Readonly<Record<string, unknown>>
  readonly isPublic: boolean
}

/** Reads published strategies. */
export interface StrategyReader {
  find(id: string): Promise<PublishedStrategy | null>
  /** Verifies a transaction on its chain; `unchecked` where this station has no node of that chain. */
  verifyTransaction(chain: string, txHash: string): Promise<'good' | 'bad' | 'unchecked'>
}
