import type { DreamInsight, VaultMemory } from '../../domain/vault-memory.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { toVaultMemory, liveMemoriesSql, type VaultMemoryRow } from './vault-memory-row.ts'

/** Reads for compressions and dreams of a vault. */

export interface VaultConsolidationCandidates {
  readonly seen: number
  readonly memories: readonly VaultMemory[]
}

/** Reads what compressions and dreams consolidate; each consolidation builds on the one before. */
export function createVaultConsolidationCandidatesReader(sql: Sql) {
  return {
    /**
     * The oldest live memories that may be consolidated, and the number of consolidations at that
     * time.
     */
    async oldest(agentId: string, limit: number, at: Date): Promise<VaultConsolidationCandidates> {
      const rows = await sql<(VaultMemoryRow & { seen: number })[]>`
        select m.*, (select count(*)::int from vault_consolidations o where o.agent_id = ${agentId}::uuid) as seen
          from vault_memories m where ${liveMemoriesSql(sql, agentId, at)} and not m.immortal
         order by m.at, m.id limit ${limit}`
      return { seen: rows[0]?.seen ?? 0, memories: rows.map(toVaultMemory) }
    },

    /** The newest live memories that no dream has used, and the number of consolidations. */
    async newest(agentId: string, limit: number, at: Date): Promise<VaultConsolidationCandidates> {
      const rows = await sql<(VaultMemoryRow & { seen: number })[]>`
        select m.*, (select count(*)::int from vault_consolidations o where o.agent_id = ${agentId}::uuid) as seen
          from vault_memories m
         where ${liveMemoriesSql(sql, agentId, at)} and m.origin->>'by' <> 'dream'
         order by m.at desc, m.id desc limit ${limit}`
      return { seen: rows[0]?.seen ?? 0, memories: rows.map(toVaultMemory) }
    },

    /** Unforgotten insights of dreams, archived or not, latest first. */
    async insights(agentId: string, limit: number, at: Date): Promise<DreamInsight[]> {
      const rows = await sql<(VaultMemoryRow & { call_id: string; archived_at: Date | null })[]>`
        select m.* from vault_memories m
         where m.agent_id = ${agentId}::uuid and m.origin->>'by' = 'dream' and m.expires_at > ${at}
         order by m.id desc limit ${limit}`
      return rows.map((row) => ({
        ...toVaultMemory(row),
        callId: row.call_id,
        isLive: row.archived_at === null,
      }))
    },
  }
}
