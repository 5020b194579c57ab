/** Searches the public Hive for entries and the reputation of their authors. */
export interface HiveEvidenceSearch {
  /** Returns entries that share words with the text, best matches first. */
  about(
    text: string,
    wanted: { readonly namespace: string | null; readonly limit: number },
  ): Promise<readonly HiveEntryWithAuthorReputation[]>
}

export interface HiveEntryWithAuthorReputation {
  readonly id: string
  readonly content: string
  /** Confidence given by the author, 0 to 1. */
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  /** The author's id where public places name it. */
  readonly author: string | null
  /** Milliseconds since the epoch. */
  readonly at: number
  /** Reputation of the author as a source, 0 to 1: calls, age and entries, without tips and reads. */
  readonly reputation: number
}
