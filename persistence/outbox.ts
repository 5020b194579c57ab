import type { Sql } from './plane.ts'

export interface StoredEvent {
  /** A decimal string: the cursor of every stream over the outbox. */
  readonly id: string
  readonly type: string
  readonly data: Record<string, unknown>
  readonly at: Date
}

/** Reads over the facts the commits have let out. */
export function outboxStore(sql: Sql) {
  return {
    /** The pager events of a Backpack, newest first; `before` is an event id. */
    async notificationsOf(
      backpackId: string,
      limit: number,
      before: string | null,
    ): Promise<StoredEvent[]> {
      const rows = await sql<
        { id: bigint; type: string; data: Record<string, unknown>; at: Date }[]
      >`
        select id, type, data, at from outbox where backpack_id = ${backpackId}
           and (${before}::bigint is null or id < ${before}::bigint)
         order by id desc limit ${limit}`
      return rows.map((row) => ({ ...row, id: String(row.id) }))
    },
  }
}
export type OutboxStore = ReturnType<typeof outboxStore>
