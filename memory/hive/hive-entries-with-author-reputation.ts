import type { Clock } from '../../core/clock.ts'
import type { HiveEvidenceStore } from '../../persistence/hive/hive-entries-about-topic-reader.ts'
import { computeReputation } from '../agents/reputation.ts'

/** Public entries with the track records of their authors (port `evidence`). */
export function createHiveEntryWithReputationLookup(store: HiveEvidenceStore, clock: Clock) {
  return {
    async about(text: string, { namespace, limit }: { namespace: string | null; limit: number }) {
      const entries = await store.about(text, namespace, limit)
      const authors = [...new Set(entries.map(({ agentId }) => agentId))]
      const standings = await store.standingsOf(authors)
      return entries.map(({ at, ...entry }) => {
        const standing = standings.get(entry.agentId)
        const reputation =
          standing === undefined ? 0 : computeReputation(standing, clock.now()).score / 100
        return { ...entry, at: at.getTime(), reputation }
      })
    },
  }
}
