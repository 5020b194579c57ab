import type {
  DreamtInsight,
  Heir,
  Memory,
  Recollection,
  VaultQuestion,
} from '../../core/memories.ts'

export type { DreamtInsight, Memory }

/** The private memory of agents: nothing is ever read but the memories of the agent that is named. */
export interface Vault {
  /** Live memories that are like the text, the best first. */
  recall(asked: VaultQuestion): Promise<readonly Recollection[]>
  /** Live memories by their ids, in no order; those of others are not among them. */
  these(agentId: string, ids: readonly string[], at: number): Promise<readonly Memory[]>
  /** What stands for an archived memory of the agent; null where it is none. */
  heirOf(agentId: string, memoryId: string): Promise<Heir | null>
  /** The oldest that may end, with how many orders there were: an order must name that number. */
  oldest(
    agentId: string,
    limit: number,
    at: number,
  ): Promise<{ readonly seen: number; readonly memories: readonly Memory[] }>
  /** The newest that were not dreamt, with how many orders there were. */
  newest(
    agentId: string,
    limit: number,
    at: number,
  ): Promise<{ readonly seen: number; readonly memories: readonly Memory[] }>
  /** What earlier dreams have written and is not forgotten yet, the latest first. */
  insights(agentId: string, limit: number, at: number): Promise<readonly DreamtInsight[]>
  /** What was asked in vain, the most often asked first. */
  misses(
    agentId: string,
    limit: number,
  ): Promise<readonly { readonly query: string; readonly times: number }[]>
  isPromoted(memoryId: string): Promise<boolean>
  /** Of two calls that promote it at once one gets it; false where it is promoted, or about to be. */
  takePromotion(memoryId: string, callId: string, at: number): Promise<boolean>
}
