import type { MemoryType } from '../../domain/memory-decay.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Statistics of a vault's queries. */

export interface VaultMemoryTypeCount {
  readonly type: MemoryType
  readonly count: number
}

export interface MostRecalledMemory {
  readonly id: string
  readonly content: string
  readonly type: MemoryType
  readonly importance: number
  readonly immortal: boolean
  readonly at: Date
  /** Queries that returned it. */
  readonly recalls: number
}

/** A query without results, and how often it was made. */
export interface UnansweredVaultQuery {
  readonly query: string
  readonly times: number
}

/** Reads statistics of an agent's vault over the stored queries. */
export function createVaultStatsReader(sql: Sql) {
  return {
    async counts(agentId: string, at: Date) {
      const [row] = await sql<CountsRow[]>`
        select count(*) filter (where archived_at is null and (expires_at is null or expires_at > ${at}))::int as live,
               count(*) filter (where archived_as = 'compressed')::int as compressed,
               count(*) filter (where archived_as = 'superseded')::int as superseded,
               count(*) filter (where archived_at is null and expires_at <= ${at})::int as expired
          from vault_memories where agent_id = ${agentId}::uuid`
      return row ?? { live: 0, compressed: 0, superseded: 0, expired: 0 }
    },

    async queries(agentId: string) {
      const [row] = await sql<QueriesRow[]>`
        select count(*)::int as asked, count(*) filter (where cardinality(memory_ids) > 0)::int as hits,
               avg(similarity) filter (where cardinality(memory_ids) > 0) as similarity
          from vault_queries where agent_id = ${agentId}::uuid`
      return row ?? { asked: 0, hits: 0, similarity: null }
    },

    /** Live memories, most recalled first, then most important. */
    async top(agentId: string, limit: number, at: Date): Promise<MostRecalledMemory[]> {
      return sql<MostRecalledMemory[]>`
        with recalled as (
          select u.id, count(*)::int as times from vault_queries q, unnest(q.memory_ids) u(id)
           where q.agent_id = ${agentId}::uuid group by 1)
        select m.id, m.content, m.type, m.importance, m.immortal, m.at, coalesce(r.times, 0) as recalls
          from vault_memories m left join recalled r using (id)
         where m.agent_id = ${agentId}::uuid and m.archived_at is null
           and (m.expires_at is null or m.expires_at > ${at})
         order by recalls desc, m.importance desc, m.at desc, m.id limit ${limit}`
    },

    async liveTypes(agentId: string, at: Date) {
      return sql<(VaultMemoryTypeCount & { importance: number; age: number })[]>`
        select type, count(*)::int as count, avg(importance) as importance,
               avg(case when immortal then 0 else extract(epoch from ${at}::timestamptz - at) end)::float8 as age
          from vault_memories where agent_id = ${agentId}::uuid and archived_at is null
           and (expires_at is null or expires_at > ${at}) group by 1 order by 1`
    },

    /** Queries without results, most frequent first. */
    async misses(agentId: string, limit: number): Promise<UnansweredVaultQuery[]> {
      return sql<UnansweredVaultQuery[]>`
        select lower(trim(query)) as query, count(*)::int as times from vault_queries
         where agent_id = ${agentId}::uuid and cardinality(memory_ids) = 0
           and not exists (select from vault_queries h where h.agent_id = ${agentId}::uuid
             and cardinality(h.memory_ids) > 0 and h.at > vault_queries.at
             and lower(trim(h.query)) = lower(trim(vault_queries.query)))
         group by 1 order by 2 desc, max(at) desc limit ${limit}`
    },
  }
}

interface CountsRow {
  live: number
  compressed: number
  superseded: number
  expired: number
}

interface QueriesRow {
  asked: number
  hits: number
  similarity: number | null
}
