import type { MemoryType } from '../../domain/memory-decay.ts'
import { LIMITS } from '../../core/limits.ts'
import type { MemoryTextQuery, ReplacementMemory, VaultMemory } from '../../domain/vault-memory.ts'
import { dequantizeVector } from '../../domain/vector-quantization.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { expandSearchTerms } from '../hive/expand-search-terms-with-synonyms.ts'
import { createThesaurusLoader } from '../hive/search-thesaurus.ts'
import { createVaultShareAndPromotionStore } from './vault-share-promotion-and-pack-store.ts'
import { createVaultConsolidationCandidatesReader } from './read-oldest-and-newest-memories.ts'
import { toVaultMemory, liveMemoriesSql, type VaultMemoryRow } from './vault-memory-row.ts'
import { createVaultStatsReader } from './vault-stats.ts'

/** A memory as exported, in any state. */
export interface VaultMemoryRecord extends VaultMemory {
  readonly archivedAt: Date | null
  readonly archivedAs: string | null
  readonly archivedBy: string | null
}

export interface VaultRecallSearch {
  readonly agentId: string
  readonly text: string
  readonly type: MemoryType | null
  readonly tag: string | null
  readonly at: Date
  /** How many of the newest memories are searched. */
  readonly maxMemories: number
}

/** Reads the memories of one agent, a parameter of every method. Commits write them. */
export function createVaultStore(sql: Sql) {
  const live = (agentId: string, at: Date) => liveMemoriesSql(sql, agentId, at)
  const glossary = createThesaurusLoader(sql)

  return {
    ...createVaultStatsReader(sql),
    ...createVaultConsolidationCandidatesReader(sql),
    ...createVaultShareAndPromotionStore(sql),

    /**
     * The newest live memories with their vectors, and how well each matches the words of a text:
     * words in few memories weigh more.
     */
    async recall({
      agentId,
      text,
      type,
      tag,
      at,
      maxMemories,
    }: VaultRecallSearch): Promise<VaultRecallMatch[]> {
      const [asked] = await sql<{ stems: string[] }[]>`
        select tsvector_to_array(to_tsvector('english', concat_ws(' ', asked, spelling_variants(asked)))) as stems
          from search_question(${text}) asked`
      const stems = asked?.stems ?? []
      const terms = expandSearchTerms(stems, await glossary())
      const rows = await sql<{ id: string; vector: Buffer; words: number }[]>`
        with asked as materialized (
          select w.query::tsquery as query, w.factor, w.meaning, w.at, w.at <= ${stems.length} as is_own
            from unnest(${terms.map(({ query }) => query)}::text[], ${terms.map(({ factor }) => factor)}::float8[],
                        ${terms.map(({ meaning }) => meaning)}::int[])
                 with ordinality w(query, factor, meaning, at)),
        newest as materialized (
          select m.id, m.vector, m.content_search from vault_memories m
           where ${live(agentId, at)} and (${type}::text is null or m.type = ${type})
             and (${tag}::text is null or ${tag} = any(m.tags))
           order by m.at desc, m.id desc limit ${maxMemories}),
        hits as materialized (
          select n.id, a.at from newest n join asked a on n.content_search @@ a.query),
        -- A word that no memory has tells none from another: it counts half.
        weights as materialized (
          select a.at, a.meaning, a.factor * case count(h.id) when 0 then 0.5 else 1 end
                   * ln(1 + (select count(*) from newest) / greatest(count(h.id), 1)::float8) as weight
            from asked a left join hits h using (at) group by a.at, a.meaning, a.factor),
        meanings as (
          select h.id, max(w.weight) as weight from hits h join weights w using (at) group by h.id, w.meaning),
        said as (select id, sum(weight) as weight from meanings group by id)
        select n.id, n.vector, least(1, coalesce(s.weight / (
                 select sum(w.weight) from weights w join asked a using (at) where a.is_own), 0)) as words
          from newest n left join said s using (id)`
      return rows.map(({ vector, ...row }) => ({ ...row, vector: dequantizeVector(vector) }))
    },

    /** Live memories of the agent by their ids, unordered. */
    async these(agentId: string, ids: readonly string[], at: Date): Promise<VaultMemory[]> {
      const rows = await sql<VaultMemoryRow[]>`
        select m.* from vault_memories m
         where ${live(agentId, at)} and m.id = any(${toTextArrayLiteral(ids)}::uuid[])`
      return rows.map(toVaultMemory)
    },

    /** The newest live memory with this text, type and permanence; null if there is none. */
    async withText(
      { agentId, content, type, immortal }: MemoryTextQuery,
      at: Date,
    ): Promise<VaultMemory | null> {
      const [row] = await sql<VaultMemoryRow[]>`
        select m.* from (
          select m.* from vault_memories m
           where ${live(agentId, at)} and m.type = ${type} and m.immortal = ${immortal} and m.namespace = 'vault'
           order by m.at desc, m.id desc limit ${LIMITS.vaultRecallCandidates}) m
         where m.content = ${content} or memory_text(m.content) = memory_text(${content})
         order by m.at desc, m.id desc limit 1`
      return row === undefined ? null : toVaultMemory(row)
    },

    /** The replacement of an agent's archived memory; null if there is none. */
    async successorOf(agentId: string, memoryId: string): Promise<ReplacementMemory | null> {
      const [row] = await sql<ReplacementMemory[]>`
        select m.archived_as as reason, m.archived_by as id from vault_memories m
         where m.agent_id = ${agentId}::uuid and m.id = ${memoryId}::uuid
           and m.archived_by is not null`
      return row ?? null
    },

    /** All memories the agent has ever had, by id; `after` is the last id of the previous part. */
    async all(agentId: string, limit: number, after: string | null): Promise<VaultMemoryRecord[]> {
      const rows = await sql<VaultMemoryRecordRow[]>`
        select m.* from vault_memories m
         where m.agent_id = ${agentId}::uuid and (${after}::uuid is null or m.id > ${after}::uuid)
         order by m.id limit ${limit}`
      return rows.map((row) => ({
        ...toVaultMemory(row),
        archivedAt: row.archived_at,
        archivedAs: row.archived_as,
        archivedBy: row.archived_by,
      }))
    },
  }
}
export type VaultStore = ReturnType<typeof createVaultStore>

export interface VaultRecallMatch {
  readonly id: string
  readonly vector: Int8Array
  /** 0 to 1. */
  readonly words: number
}

interface VaultMemoryRecordRow extends VaultMemoryRow {
  archived_at: Date | null
  archived_as: string | null
  archived_by: string | null
}
