import type { Sql } from './plane.ts'

/** A text that an author is about to write. */
export interface NewText {
  readonly agentId: string
  readonly isPublic: boolean
  readonly content: string
}

export interface WrittenText {
  readonly id: string
  readonly namespace: string
  readonly at: Date
}

/** A call that has taken a text is committed by then, or another may take it. */
const CLAIMED_SECONDS = 20
const MAX_COMPARED = 50

/** Which texts stand in the Hive, and which are on their way. */
export function textStore(sql: Sql) {
  return {
    /** The author's own entry of an equal text. */
    async written({ agentId, isPublic, content }: NewText): Promise<WrittenText | null> {
      const [row] = await sql<WrittenText[]>`
        select e.id, e.namespace, e.at from hive_texts t join hive_entries e on e.id = t.entry_id
         where t.agent_id = ${agentId} and t.is_public = ${isPublic} and t.hash = hive_hash(${content})`
      return row ?? null
    },

    /** Public entries of other authors that are equal, or share a band. */
    async alike(
      { agentId, content }: NewText,
      bands: readonly number[],
    ): Promise<{ id: string; content: string }[]> {
      return sql`
        select e.id, e.content from hive_texts t join hive_entries e on e.id = t.entry_id
         where t.is_public and t.agent_id <> ${agentId}
           and (t.hash = hive_hash(${content}) or t.bands && ${sql.array([...bands], INT4_ARRAY)})
         order by t.hash = hive_hash(${content}) desc, e.id limit ${MAX_COMPARED}`
    },

    /** Takes the text for an entry; false where it is written, or another call is writing it. */
    async take(text: NewText, bands: readonly number[], entryId: string): Promise<boolean> {
      const { agentId, isPublic, content } = text
      const taken = await sql`
        insert into hive_texts as t (agent_id, is_public, hash, entry_id, bands, claimed_until)
        values (${agentId}, ${isPublic}, hive_hash(${content}), ${entryId},
                ${sql.array([...bands], INT4_ARRAY)}, now() + make_interval(secs => ${CLAIMED_SECONDS}))
        on conflict (agent_id, is_public, hash) do update
          set entry_id = excluded.entry_id, bands = excluded.bands, claimed_until = excluded.claimed_until
          where t.claimed_until <= now()
            and not exists (select from hive_entries e where e.id = t.entry_id)`
      return taken.count > 0
    },
  }
}
export type TextStore = ReturnType<typeof textStore>

/** The type of PostgreSQL's `int4[]`. */
const INT4_ARRAY = 1007
