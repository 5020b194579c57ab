import type { Sql } from '../start-postgres-and-redis.ts'

/** A text that an author is about to write. */
export interface HiveTextDraft {
  readonly agentId: string
  readonly isPublic: boolean
  readonly content: string
}

/** The entry and the call that claim a text. */
interface HiveTextClaim {
  readonly bands: readonly number[]
  readonly entryId: string
  /** The same for a repetition of a call. */
  readonly claimant: string
}

export interface ExistingHiveText {
  readonly id: string
  readonly namespace: string
  readonly at: Date
}

/** The claiming call must be committed by then, or another may claim the text. */
const CLAIM_SECONDS = 20
const MAX_COMPARED = 50

/** Detects texts that are in the Hive, or are being written. */
export function createHiveDuplicateTextStore(sql: Sql) {
  return {
    /** The author's own entry of an equal text. */
    async written({ agentId, isPublic, content }: HiveTextDraft): Promise<ExistingHiveText | null> {
      const [row] = await sql<ExistingHiveText[]>`
        select e.id, e.namespace, e.at from hive_texts t join hive_entries e on e.id = t.entry_id
         where t.agent_id = ${agentId} and t.is_public = ${isPublic} and t.hash = hash_hive_text(${content})`
      return row ?? null
    },

    /** Public entries of other authors that are equal, or share a band. */
    async alike(
      { agentId, content }: HiveTextDraft,
      bands: readonly number[],
    ): Promise<{ id: string; content: string }[]> {
      return sql`
        select e.id, e.content from hive_texts t join hive_entries e on e.id = t.entry_id
         where t.is_public and t.agent_id <> ${agentId}
           and (t.hash = hash_hive_text(${content}) or t.bands && ${sql.array([...bands], INT4_ARRAY_OID)})
         order by t.hash = hash_hive_text(${content}) desc, e.id limit ${MAX_COMPARED}`
    },

    /**
     * Claims the text for an entry and returns that entry's id; a repetition gets the earlier id.
     * Null if the text exists, or another call is writing it or a possible copy.
     */
    async take(
      { agentId, isPublic, content }: HiveTextDraft,
      { bands, entryId, claimant }: HiveTextClaim,
    ): Promise<string | null> {
      const [row] = await sql<{ id: string | null }[]>`
        select claim_hive_text(${agentId}, ${isPublic}, ${content}, ${sql.array([...bands], INT4_ARRAY_OID)},
                          ${entryId}, ${claimant}, ${CLAIM_SECONDS}) as id`
      return row?.id ?? null
    },

    /**
     * Releases the claim of an unwritten entry; does nothing if it was written or claimed by
     * another.
     */
    async release({ agentId, isPublic, content }: HiveTextDraft, entryId: string): Promise<void> {
      await sql`
        delete from hive_texts t
         where t.agent_id = ${agentId} and t.is_public = ${isPublic} and t.hash = hash_hive_text(${content})
           and t.entry_id = ${entryId}
           and not exists (select from hive_entries e where e.id = t.entry_id)`
    },
  }
}
export type HiveDuplicateTextStore = ReturnType<typeof createHiveDuplicateTextStore>

/** The type of PostgreSQL's `int4[]`. */
const INT4_ARRAY_OID = 1007
