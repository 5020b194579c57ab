import type { MemoryType } from '../core/decay.ts'
import type { Memory } from '../core/memories.ts'
import { unpacked } from '../core/packed.ts'
import type { Sql } from './plane.ts'

/** A row of `vault_memories` as the driver hands it over. */
export interface MemoryRow {
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

export const fromRow = (row: MemoryRow): Memory => ({
  id: row.id,
  content: row.content,
  type: row.type,
  tags: row.tags,
  importance: row.importance,
  immortal: row.immortal,
  namespace: row.namespace,
  origin: row.origin,
  vector: unpacked(row.vector),
  at: row.at.getTime(),
})

/** What of the memories `m` of an agent is neither archived nor forgotten. */
export const liveAt = (sql: Sql, agentId: string, at: Date) =>
  sql`m.agent_id = ${agentId}::uuid and m.archived_at is null
    and (m.expires_at is null or m.expires_at > ${at})`
