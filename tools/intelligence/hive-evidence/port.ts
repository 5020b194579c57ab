/** What the public hive says of something, and who says it. */
export interface HiveEvidenceSearch {
  /** Entries that share words with the text, the best matches first. */
  about(
    text: string,
    wanted: { readonly namespace: string | null; readonly limit: number },
  ): Promise<readonly HiveEvidenceItem[]>
}

export interface HiveEvidenceItem {
  readonly id: string
  readonly content: string
  /** The author's own, 0 to 1. */
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  /** Milliseconds since the epoch. */
  readonly at: number
  /** What the author is worth as a witness, 0 to 1: its calls, age and entries; tips and reads are left out. */
  readonly reputation: number
}
