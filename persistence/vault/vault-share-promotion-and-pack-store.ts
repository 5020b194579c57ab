import type { MemoryType } from '../../domain/memory-decay.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Memories shared between vaults, promotions and installed packs. */

export interface SharedVaultMemory {
  readonly id: string
  readonly memoryId: string
  readonly fromAgent: string
  readonly content: string
  readonly type: MemoryType
  readonly tags: readonly string[]
  readonly importance: number
  readonly rememberedAt: Date
  readonly memo: string | null
  readonly at: Date
}

export interface InstalledMemoryPack {
  readonly pack: string
  readonly boughtAs: string
  readonly entries: number
  readonly at: Date
}

/** Longer than a promotion takes; a failed one blocks the memory for the rest of it. */
const PROMOTION_CLAIM_MS = 60_000

/** Reads what vaults receive and share. */
export function createVaultShareAndPromotionStore(sql: Sql) {
  return {
    /** Memories that others have shared with the agent, latest first. */
    async received(agentId: string, limit: number, before: string | null) {
      return sql<SharedVaultMemory[]>`
        select id, memory_id as "memoryId", from_agent as "fromAgent", content, type, tags, importance,
               remembered_at as "rememberedAt", memo, at
          from vault_shares where to_agent = ${agentId}::uuid
           and (${before}::uuid is null or id < ${before}::uuid) order by id desc limit ${limit}`
    },

    async isPromoted(memoryId: string): Promise<boolean> {
      const [row] = await sql`select from vault_promotions where memory_id = ${memoryId} limit 1`
      return row !== undefined
    },

    /** Reserves a memory for one of concurrent promotions; false if it is promoted or reserved. */
    async takePromotion(memoryId: string, callId: string, at: Date): Promise<boolean> {
      const until = new Date(at.getTime() + PROMOTION_CLAIM_MS)
      const taken = await sql`
        insert into vault_promotion_claims as c (memory_id, call_id, until)
        select ${memoryId}::uuid, ${callId}::uuid, ${until}::timestamptz
         where not exists (select from vault_promotions where memory_id = ${memoryId})
        on conflict (memory_id) do update set call_id = excluded.call_id, until = excluded.until
         where c.until <= ${at}`
      return taken.count > 0
    },

    /** Installed packs, oldest first. */
    async installed(agentId: string): Promise<InstalledMemoryPack[]> {
      return sql<InstalledMemoryPack[]>`
        select pack, bought_as as "boughtAs", entries, at from pack_installs
         where agent_id = ${agentId}::uuid order by at, pack`
    },
  }
}
