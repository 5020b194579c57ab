import type { DreamtInsight, Memory } from '../core/memories.ts'
import type { Sql } from './plane.ts'
import { fromRow, liveAt, type MemoryRow } from './vault-rows.ts'

export interface Ordered {
  readonly seen: number
  readonly memories: readonly Memory[]
}

/** What compressions and dreams read: each of them is an order that stands on the one before. */
export function vaultOrders(sql: Sql) {
  return {
    /** The oldest live memories that may end, and how many orders there were when they were read. */
    async oldest(agentId: string, limit: number, at: Date): Promise<Ordered> {
      const rows = await sql<(MemoryRow & { seen: number })[]>`
        select m.*, (select count(*)::int from vault_orders o where o.agent_id = ${agentId}::uuid) as seen
          from vault_memories m where ${liveAt(sql, agentId, at)} and not m.immortal
         order by m.at, m.id limit ${limit}`
      return { seen: rows[0]?.seen ?? 0, memories: rows.map(fromRow) }
    },

    /** The newest live memories that were not dreamt, and how many orders there were. */
    async newest(agentId: string, limit: number, at: Date): Promise<Ordered> {
      const rows = await sql<(MemoryRow & { seen: number })[]>`
        select m.*, (select count(*)::int from vault_orders o where o.agent_id = ${agentId}::uuid) as seen
          from vault_memories m
         where ${liveAt(sql, agentId, at)} and m.origin->>'by' <> 'dream'
         order by m.at desc, m.id desc limit ${limit}`
      return { seen: rows[0]?.seen ?? 0, memories: rows.map(fromRow) }
    },

    /** What dreams have written and is not forgotten yet, archived or not, the latest first. */
    async insights(agentId: string, limit: number, at: Date): Promise<DreamtInsight[]> {
      const rows = await sql<(MemoryRow & { call_id: string; archived_at: Date | null })[]>`
        select m.* from vault_memories m
         where m.agent_id = ${agentId}::uuid and m.origin->>'by' = 'dream' and m.expires_at > ${at}
         order by m.id desc limit ${limit}`
      return rows.map((row) => ({
        ...fromRow(row),
        callId: row.call_id,
        isLive: row.archived_at === null,
      }))
    },
  }
}
