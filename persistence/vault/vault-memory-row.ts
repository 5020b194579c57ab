import type { MemoryType } from '../../domain/memory-decay.ts'
import type { VaultMemory } from '../../domain/vault-memory.ts'
import { dequantizeVector } from '../../domain/vector-quantization.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** A row of `vault_memories` as the driver returns it. */
export interface VaultMemoryRow {
  id: string
  content: string
  type: MemoryType
  tags: string[]
  importance: number
  immortal: boolean
  namespace: string
  origin: Record<string, unknown>
  vector: Buffer
  at: Date
}

export const toVaultMemory = (row: VaultMemoryRow): VaultMemory => ({
  id: row.id,
  content: row.content,
  type: row.type,
  tags: row.tags,
  importance: row.importance,
  immortal: row.immortal,
  namespace: row.namespace,
  origin: row.origin,
  vector: dequantizeVector(row.vector),
  at: row.at.getTime(),
})

/** Condition on an agent's memories `m` that are neither archived nor forgotten. */
export const liveMemoriesSql = (sql: Sql, agentId: string, at: Date) =>
  sql`m.agent_id = ${agentId}::uuid and m.archived_at is null
    and (m.expires_at is null or m.expires_at > ${at})`
