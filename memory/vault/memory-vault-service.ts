import { describeMemoryDecay, memoryStrength, type MemoryType } from '../../domain/memory-decay.ts'
import { LIMITS } from '../../core/limits.ts'
import type {
  MemoryTextQuery,
  VaultMemory,
  VaultRecallHit,
  VaultRecallQuery,
} from '../../domain/vault-memory.ts'
import { cosineSimilarity } from '../../domain/vector-quantization.ts'
import type { VaultStore } from '../../persistence/vault/vault-store.ts'

/** Recall from the private memory of agents. */

/** Less similar memories are not returned. */
const MIN_SIMILARITY = 0.2
const WORDS = 0.7
/** This many characters determine the subject of a text. */
const MAX_QUERY_CHARS = 500
const TOP = 10

/** Creates the vault service: recalls memories and reports statistics. */
export function createVaultRecallAndStatsService(store: VaultStore) {
  return {
    oldest: (agentId: string, limit: number, at: number) =>
      store.oldest(agentId, limit, new Date(at)),
    newest: (agentId: string, limit: number, at: number) =>
      store.newest(agentId, limit, new Date(at)),
    insights: (agentId: string, limit: number, at: number) =>
      store.insights(agentId, limit, new Date(at)),
    these: (agentId: string, ids: readonly string[], at: number) =>
      store.these(agentId, ids, new Date(at)),
    withText: (asked: MemoryTextQuery, at: number) => store.withText(asked, new Date(at)),
    successorOf: store.successorOf,
    misses: store.misses,
    isPromoted: store.isPromoted,
    takePromotion: (memoryId: string, callId: string, at: number) =>
      store.takePromotion(memoryId, callId, new Date(at)),
    installed: store.installed,

    /** Live memories similar to the question, best first. */
    async recall(asked: VaultRecallQuery): Promise<VaultRecallHit[]> {
      const {
        agentId,
        type,
        tag,
        vector,
        limit,
        candidateLimit: maxMemories = LIMITS.vaultRecallCandidates,
      } = asked
      const at = new Date(asked.at)
      const text = asked.text.slice(0, MAX_QUERY_CHARS)
      const known = await store.recall({ agentId, text, type, tag, at, maxMemories })
      const like = new Map(
        known
          .map(
            (one) =>
              [one.id, combineSimilarity(one.words, cosineSimilarity(vector, one.vector))] as const,
          )
          .filter(([, similarity]) => similarity >= MIN_SIMILARITY)
          .sort((a, b) => b[1] - a[1])
          .slice(0, limit * 3),
      )
      if (like.size === 0) return []
      const memories = await store.these(agentId, [...like.keys()], at)
      return memories
        .map((memory) => {
          const similarity = like.get(memory.id) ?? 0
          return { memory, similarity, score: memoryScore(similarity, memory, asked.at) }
        })
        .sort((a, b) => b.score - a.score || b.memory.at - a.memory.at)
        .slice(0, limit)
    },

    /** Statistics of an agent's vault. */
    async stats(agentId: string, now: number) {
      const at = new Date(now)
      const [counts, queries, types, top, misses] = await Promise.all([
        store.counts(agentId, at),
        store.queries(agentId),
        store.liveTypes(agentId, at),
        store.top(agentId, TOP, at),
        store.misses(agentId, TOP),
      ])
      return { counts, queries, types, top: top.map((one) => withDecay(one, now)), misses }
    },
  }
}
export type MemoryVaultService = ReturnType<typeof createVaultRecallAndStatsService>

/** Combines common words with common stems and trigrams, which tolerate spelling variants. */
const combineSimilarity = (words: number, cosine: number): number =>
  round(Math.max(WORDS * words + (1 - WORDS) * cosine, cosine))

/** Similarity first; neither importance nor freshness can outweigh it. */
function memoryScore(similarity: number, memory: VaultMemory, now: number): number {
  const { importance } = memory
  return round(similarity * (0.6 + 0.4 * importance) * (0.5 + 0.5 * memoryStrength(memory, now)))
}

const withDecay = <T extends { type: MemoryType; immortal: boolean; at: Date }>(
  memory: T,
  now: number,
) => ({ ...memory, decay: describeMemoryDecay({ ...memory, at: memory.at.getTime() }, now) })

const round = (value: number): number => Math.round(value * 1e4) / 1e4
