import type { MemoryType } from '../core/decay.ts'
import type { Heir, Memory } from '../core/memories.ts'
import { unpacked } from '../core/packed.ts'
import { textArray } from './pg-array.ts'
import type { Sql } from './plane.ts'
import { vaultExchange } from './vault-exchange.ts'
import { vaultStats } from './vault-stats.ts'

/** A memory as the export has it, whatever has become of it. */
export interface StoredMemory extends Memory {
  readonly archivedAt: Date | null
  readonly archivedAs: string | null
  readonly archivedBy: string | null
}

export interface RecallSearch {
  readonly agentId: string
  readonly text: string
  readonly type: MemoryType | null
  readonly tag: string | null
  readonly at: Date
  /** How many of the newest memories are looked at. */
  readonly most: number
}

/** Reads over the memories of one agent, who is always named. Writes are the commit's. */
export function vaultStore(sql: Sql) {
  const live = (agentId: string, at: Date) =>
    sql`m.agent_id = ${agentId}::uuid and m.archived_at is null
      and (m.expires_at is null or m.expires_at > ${at})`

  return {
    ...vaultStats(sql),
    ...vaultExchange(sql),

    /** The newest live memories by their vectors, and which share of the words of a text each has. */
    async recall({ agentId, text, type, tag, at, most }: RecallSearch): Promise<Recalled[]> {
      const rows = await sql<{ id: string; vector: Buffer; words: number }[]>`
        with asked as materialized (
          select coalesce(array_agg(plainto_tsquery('simple', s)), '{}') as stems
            from unnest(tsvector_to_array(to_tsvector('english', ${text}))) s),
        newest as materialized (
          select m.id, m.vector, m.content_search from vault_memories m
           where ${live(agentId, at)} and (${type}::text is null or m.type = ${type})
             and (${tag}::text is null or ${tag} = any(m.tags))
           order by m.at desc, m.id desc limit ${most})
        select n.id, n.vector, case when cardinality(a.stems) = 0 then 0 else (
            select count(*) from unnest(a.stems) s
             where n.content_search @@ s)::float8 / cardinality(a.stems)
          end as words
          from newest n cross join asked a`
      return rows.map(({ vector, ...row }) => ({ ...row, vector: unpacked(vector) }))
    },

    /** Live memories of the agent by their ids, in no order. */
    async these(agentId: string, ids: readonly string[], at: Date): Promise<Memory[]> {
      const rows = await sql<MemoryRow[]>`
        select m.* from vault_memories m
         where ${live(agentId, at)} and m.id = any(${textArray(ids)}::uuid[])`
      return rows.map(fromRow)
    },

    /** What stands for an archived memory of the agent; null where it is none. */
    async heirOf(agentId: string, memoryId: string): Promise<Heir | null> {
      const [row] = await sql<Heir[]>`
        select m.archived_as as reason, m.archived_by as id from vault_memories m
         where m.agent_id = ${agentId}::uuid and m.id = ${memoryId}::uuid
           and m.archived_by is not null`
      return row ?? null
    },

    /** The oldest live memories that may end, and how many orders there were when they were read. */
    async oldest(agentId: string, limit: number, at: Date): Promise<Ordered> {
      const rows = await sql<(MemoryRow & { seen: number })[]>`
        select m.*, (select count(*)::int from vault_orders o where o.agent_id = ${agentId}::uuid) as seen
          from vault_memories m where ${live(agentId, at)} and not m.immortal
         order by m.at, m.id limit ${limit}`
      return { seen: rows[0]?.seen ?? 0, memories: rows.map(fromRow) }
    },

    /** The newest live memories that were not dreamt. */
    async newest(agentId: string, limit: number, at: Date): Promise<Memory[]> {
      const rows = await sql<MemoryRow[]>`
        select m.* from vault_memories m
         where ${live(agentId, at)} and m.origin->>'by' <> 'dream'
         order by m.at desc, m.id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** Everything the agent has ever had, by id; `after` is the id the part before ended with. */
    async all(agentId: string, limit: number, after: string | null): Promise<StoredMemory[]> {
      const rows = await sql<StoredRow[]>`
        select m.* from vault_memories m
         where m.agent_id = ${agentId}::uuid and (${after}::uuid is null or m.id > ${after}::uuid)
         order by m.id limit ${limit}`
      return rows.map((row) => ({
        ...fromRow(row),
        archivedAt: row.archived_at,
        archivedAs: row.archived_as,
        archivedBy: row.archived_by,
      }))
    },
  }
}
export type VaultStore = ReturnType<typeof vaultStore>

export interface Recalled {
  readonly id: string
  readonly vector: Int8Array
  /** 0 to 1. */
  readonly words: number
}

export interface Ordered {
  readonly seen: number
  readonly memories: readonly Memory[]
}

interface MemoryRow {
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

interface StoredRow extends MemoryRow {
  archived_at: Date | null
  archived_as: string | null
  archived_by: string | null
}

const fromRow = (row: MemoryRow): Memory => ({
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
