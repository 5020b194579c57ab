import type {
  DreamInsight,
  ReplacementMemory,
  VaultMemory,
  VaultRecallHit,
  VaultRecallQuery,
} from '../../../domain/vault-memory.ts'

/** The private memory of agents: nothing is ever read but the memories of the agent that is named. */
export interface VaultPort {
  /** Live memories that are like the text, the best first. */
  recall(asked: VaultRecallQuery): Promise<readonly VaultRecallHit[]>
  /** Live memories by their ids, in no order; those of others are not among them. */
  byIds(agentId: string, ids: readonly string[], at: number): Promise<readonly VaultMemory[]>
  /** What stands for an archived memory of the agent; null where it is none. */
  successorOf(agentId: string, memoryId: string): Promise<ReplacementMemory | null>
  /** The oldest that may end, with how many orders there were: an order must name that number. */
  oldest(
    agentId: string,
    limit: number,
    at: number,
  ): Promise<{ readonly seen: number; readonly memories: readonly VaultMemory[] }>
  /** The newest that were not dreamt, with how many orders there were. */
  newest(
    agentId: string,
    limit: number,
    at: number,
  ): Promise<{ readonly seen: number; readonly memories: readonly VaultMemory[] }>
  /** What earlier dreams have written and is not forgotten yet, the latest first. */
  insights(agentId: string, limit: number, at: number): Promise<readonly DreamInsight[]>
  /** What was asked in vain, the most often asked first. */
  unansweredQueries(
    agentId: string,
    limit: number,
  ): Promise<readonly { readonly query: string; readonly times: number }[]>
  isPromoted(memoryId: string): Promise<boolean>
  /** Of two calls that promote it at once one gets it; false where it is promoted, or about to be. */
  reservePromotion(memoryId: string, callId: string, at: number): Promise<boolean>
}
