import type {
  DreamInsight,
  MemoryTextQuery,
  ReplacementMemory,
  VaultMemory,
  VaultRecallHit,
  VaultRecallQuery,
} from '../../../domain/vault-memory.ts'

/** The private memories of agents. Every method reads the named agent's memories only. */
export interface VaultPort {
  /** Returns live memories similar to the text, best first. */
  recall(query: VaultRecallQuery): Promise<readonly VaultRecallHit[]>
  /** Returns the agent's live memories with these ids, in no particular order. */
  byIds(agentId: string, ids: readonly string[], at: number): Promise<readonly VaultMemory[]>
  /** Returns the newest live memory with the same text that lasts as long; null where there is none. */
  withText(query: MemoryTextQuery, at: number): Promise<VaultMemory | null>
  /** Returns the replacement of an archived memory; null where it is not archived. */
  successorOf(agentId: string, memoryId: string): Promise<ReplacementMemory | null>
  /** Returns the oldest memories that may be merged, and the order count that the commit must name. */
  oldest(
    agentId: string,
    limit: number,
    at: number,
  ): Promise<{ readonly seen: number; readonly memories: readonly VaultMemory[] }>
  /** Returns the newest memories that were not dreamt, and the order count that the commit must name. */
  newest(
    agentId: string,
    limit: number,
    at: number,
  ): Promise<{ readonly seen: number; readonly memories: readonly VaultMemory[] }>
  /** Returns live insights of earlier dreams, latest first. */
  insights(agentId: string, limit: number, at: number): Promise<readonly DreamInsight[]>
  /** Returns queries without a result, most frequent first. */
  unansweredQueries(
    agentId: string,
    limit: number,
  ): Promise<readonly { readonly query: string; readonly times: number }[]>
  isPromoted(memoryId: string): Promise<boolean>
  /** Reserves the promotion of a memory for one call; returns false where it is promoted or reserved. */
  reservePromotion(memoryId: string, callId: string, at: number): Promise<boolean>
}
