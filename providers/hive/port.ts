export interface HiveSearchRequest {
  readonly text: string
  readonly namespace: string | null
  readonly minConfidence: number
  readonly limit: number
  /** The agent who asks: sees its own private entries. Null sees public ones only. */
  readonly agentId: string | null
  /** Whose reads count once a UTC day: the agent, or the visitor without a key. */
  readonly reader: string
  readonly at: number
}

export interface HiveSearchHit {
  readonly id: string
  readonly content: string
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  /** ISO 8601. */
  readonly at: string
  /** False when this reader has read it today already, or wrote it. */
  readonly firstReadToday: boolean
}

export interface HiveTrends {
  readonly domains: readonly { namespace: string; reads: number; writes: number; zScore: number }[]
  readonly tools: readonly { slug: string; calls: number; zScore: number }[]
  /** Milliseconds since the epoch. */
  readonly generatedAt: number
}

/** Shared memory. */
export interface HiveReader {
  /** Whether reads that are free, or paid for with promotional credits, owe a royalty (decision 105). */
  readonly promoRoyalties: boolean
  search(query: HiveSearchRequest): Promise<{ entries: readonly HiveSearchHit[]; total: number }>
  /** The last 24 hours against the seven days before; strongest first. */
  trending(limit: number): Promise<HiveTrends>
}

/** An entry by its id, whoever asks. */
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
  /** Decimal; the cursor behind this match. */
  readonly cursor: string
  readonly watchId: string
  readonly matchedAt: string
  readonly entry: {
    readonly id: string
    readonly content: string
    readonly confidence: number
    readonly namespace: string
    readonly agentId: string
    readonly at: string
    readonly firstReadToday: boolean
  }
}

/** What stands around the entries of the Hive: the featured place, and who watches for what. */
export interface HiveWatchesAndFeature {
  entry(id: string): Promise<HiveEntrySummary | null>
  /** When the featured place is free again, in milliseconds; null when it is now. */
  featureFreeAt(at: number): Promise<number | null>
  /**
   * Takes the featured place for a call that is about to be charged: for a moment, which its commit
   * prolongs. Resolves to when it is free again where another call has it.
   */
  takeFeature(callId: string, at: number): Promise<number | null>
  /** Whether the keyword has a word that can be looked for. */
  isWatchable(keyword: string): Promise<boolean>
  /** Whether the watch is the agent's and has not ended. */
  hasWatch(agentId: string, watchId: string): Promise<boolean>
  /** With how many matches each has, of which a thousand are counted. */
  watchesOf(agentId: string): Promise<readonly HiveWatch[]>
  /** New matches of the agent's watches, or of one of them, the oldest first, after a cursor. */
  matchesOf(asked: {
    readonly agentId: string
    readonly watchId: string | null
    readonly after: string | null
    readonly limit: number
    readonly at: number
  }): Promise<readonly WatchedEntryMatch[]>
}

/** What became of a text that an author is about to write. */
export type HiveTextReservation =
  /** For an entry with this id. */
  | { readonly state: 'taken'; readonly id: string }
  /** The author's own entry says the same. */
  | {
      readonly state: 'written'
      readonly id: string
      readonly namespace: string
      readonly at: Date
    }
  /** It is a near copy of this public entry of another author. */
  | { readonly state: 'copy'; readonly id: string }
  /** Another call is writing it or what may be a copy of it, and has not ended. */
  | { readonly state: 'pending' }

/** A text that an author is about to write. */
interface NewHiveText {
  readonly agentId: string
  readonly isPublic: boolean
  readonly content: string
}

/** Keeps one entry of each text. */
export interface HiveTextReservations {
  /**
   * Takes a text for an entry that is to be written in the commit of the call that `claimant` names; a
   * repetition of that call writes it with the id of before.
   */
  claim(text: NewHiveText, entryId: string, claimant: string): Promise<HiveTextReservation>
  /** Gives a text back whose entry is not written after all. */
  release(text: NewHiveText, entryId: string): Promise<void>
}

export interface PublishedStrategy {
  readonly id: string
  readonly agentId: string
  readonly title: string
  readonly description: string
  readonly tool: string | null
  readonly chain: string | null
  readonly params: Readonly<Record<string, unknown>>
  readonly isPublic: boolean
}

/** Strategies that agents publish. */
export interface StrategyReader {
  find(id: string): Promise<PublishedStrategy | null>
  /** What the chain says of a transaction; `unchecked` where this station has no node of that chain. */
  verifyTransaction(chain: string, txHash: string): Promise<'good' | 'bad' | 'unchecked'>
}
