import { reserveDailyStoredBytes } from '../daily-stored-byte-quotas.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Key-value notes of a Backpack. */

export interface BackpackClipboardEntry {
  readonly key: string
  readonly value: unknown
  readonly expiresAt: Date | null
  readonly updatedAt: Date
}

export interface BackpackClipboardOwner {
  readonly agentId: string
  readonly backpackId: string
}

/** Stores a Backpack's notes; expired notes are never returned. */
export function createBackpackClipboardStore(sql: Sql) {
  return {
    async find(backpackId: string, key: string, at: Date): Promise<BackpackClipboardEntry | null> {
      const [row] = await sql<EntryRow[]>`
        select key, value, expires_at, updated_at from clipboard
         where backpack_id = ${backpackId} and key = ${key}
           and (expires_at is null or expires_at > ${at})`
      return row === undefined ? null : fromRow(row)
    },

    /** Entries by key; `after` is the last key of the previous page. */
    async listOf(
      backpackId: string,
      at: Date,
      limit: number,
      after: string | null,
    ): Promise<BackpackClipboardEntry[]> {
      const rows = await sql<EntryRow[]>`
        select key, value, expires_at, updated_at from clipboard
         where backpack_id = ${backpackId} and (expires_at is null or expires_at > ${at})
           and (${after}::text is null or key > ${after})
         order by key limit ${limit}`
      return rows.map(fromRow)
    },

    /** Adds or replaces an entry; false if the Backpack already holds `most` others. */
    async put(
      tx: DatabaseTransaction,
      { agentId, backpackId }: BackpackClipboardOwner,
      entry: BackpackClipboardEntry,
      most: number,
    ): Promise<boolean> {
      const { key, expiresAt, updatedAt } = entry
      const value = JSON.stringify(entry.value)
      await reserveDailyStoredBytes(tx, agentId, Buffer.byteLength(value), updatedAt)
      await tx`select pg_advisory_xact_lock(hashtextextended(${`clipboard:${backpackId}`}, 0))`
      await tx`
        delete from clipboard where backpack_id = ${backpackId} and expires_at <= ${updatedAt}`
      const kept = await tx`
        insert into clipboard (backpack_id, key, value, expires_at, updated_at)
        select ${backpackId}, ${key}, ${value}::text::jsonb, ${expiresAt}::timestamptz,
               ${updatedAt}::timestamptz
         where (select count(*) from clipboard
                 where backpack_id = ${backpackId} and key <> ${key}) < ${most}
        on conflict (backpack_id, key) do update set value = excluded.value,
          expires_at = excluded.expires_at, updated_at = excluded.updated_at`
      return kept.count === 1
    },

    /** Deletes expired entries; returns their number. */
    async sweep(at: Date): Promise<number> {
      const { count } = await sql`delete from clipboard where expires_at <= ${at}`
      return count
    },

    /** False if there was no such entry. */
    async remove(tx: DatabaseTransaction, backpackId: string, key: string): Promise<boolean> {
      const gone = await tx`
        delete from clipboard where backpack_id = ${backpackId} and key = ${key}`
      return gone.count === 1
    },
  }
}
export type BackpackClipboardStore = ReturnType<typeof createBackpackClipboardStore>

interface EntryRow {
  key: string
  value: unknown
  expires_at: Date | null
  updated_at: Date
}

const fromRow = (row: EntryRow): BackpackClipboardEntry => ({
  key: row.key,
  value: row.value,
  expiresAt: row.expires_at,
  updatedAt: row.updated_at,
})
