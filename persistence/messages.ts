import type { Sql } from './plane.ts'

export interface Message {
  readonly id: string
  readonly from: string
  readonly to: string
  readonly kind: string
  readonly subject: string | null
  readonly body: string
  readonly at: Date
}

/** What agents wrote to each other, until it expires. Writes are the commit's. */
export function messageStore(sql: Sql) {
  return {
    /** Messages to an agent, newest first; `before` is the id of the last one seen. */
    async inboxOf(agentId: string, now: Date, limit: number, before: string | null) {
      const rows = await sql<MessageRow[]>`
        select * from messages
         where to_agent = ${agentId} and expires_at > ${now}
           and (${before}::uuid is null or id < ${before}::uuid)
         order by id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** Removes what has expired; answers how many. */
    async sweep(now: Date): Promise<number> {
      const { count } = await sql`delete from messages where expires_at <= ${now}`
      return count
    },
  }
}

interface MessageRow {
  id: string
  from_agent: string
  to_agent: string
  kind: string
  subject: string | null
  body: string
  at: Date
}

const fromRow = (row: MessageRow): Message => ({
  id: row.id,
  from: row.from_agent,
  to: row.to_agent,
  kind: row.kind,
  subject: row.subject,
  body: row.body,
  at: row.at,
})
