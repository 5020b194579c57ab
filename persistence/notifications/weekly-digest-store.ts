import { randomBytes } from 'node:crypto'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Who gets a weekly digest, which weeks are done, and who has unsubscribed. */

/** An agent whose week has no digest yet. */
export interface PendingWeeklyDigestRecipient {
  readonly agentId: string
  readonly name: string
  /** The confirmed address, in lower case. */
  readonly email: string
}

/** What the link of a digest shows. */
export interface WeeklyDigestSubscription {
  readonly email: string
  readonly isSubscribed: boolean
}

export function createWeeklyDigestStore(sql: Sql) {
  return {
    /**
     * Agents without a digest of the week that begins at `week` and ends at `until`. An address that was
     * confirmed later begins with the next week.
     */
    async due(week: Date, until: Date, limit: number): Promise<PendingWeeklyDigestRecipient[]> {
      const rows = await sql<{ agent_id: string; name: string; email: string }[]>`
        select c.agent_id, a.name, c.email
          from confirmed_contacts c join agents a using (agent_id)
         where lower(a.contact_email) = c.email and c.confirmed_at < ${until}
           and not exists (select from weekly_digests w where w.agent_id = c.agent_id
                              and w.week >= (${week}::timestamptz at time zone 'UTC')::date)
           and not exists (select from digest_addresses d where d.email = c.email
                              and d.unsubscribed_at is not null)
         order by c.agent_id limit ${limit}`
      return rows.map((row) => ({ agentId: row.agent_id, name: row.name, email: row.email }))
    },

    /**
     * Marks the week of an agent as done and runs `write` in the same transaction, with the token of the
     * address. Does nothing where another node has done it.
     */
    async finish(
      { agentId, email }: PendingWeeklyDigestRecipient,
      week: Date,
      write: (tx: DatabaseTransaction, token: string) => Promise<void>,
    ): Promise<void> {
      await sql.begin(async (tx) => {
        const marked = await tx`
          insert into weekly_digests as w (agent_id, week)
          values (${agentId}, (${week}::timestamptz at time zone 'UTC')::date)
          on conflict (agent_id) do update set week = excluded.week where w.week < excluded.week`
        if (marked.count === 0) return
        const token = randomBytes(24).toString('base64url')
        const [row] = await tx<{ token: string }[]>`
          insert into digest_addresses as d (email, token) values (${email}, ${token})
          on conflict (email) do update set email = d.email returning token`
        await write(tx, row?.token ?? token)
      })
    },

    /** The address of a link; null for an unknown token. */
    async find(token: string): Promise<WeeklyDigestSubscription | null> {
      const [row] = await sql<{ email: string; unsubscribed_at: Date | null }[]>`
        select email, unsubscribed_at from digest_addresses where token = ${token}`
      return row === undefined
        ? null
        : { email: row.email, isSubscribed: row.unsubscribed_at === null }
    },

    /** Ends the digests of an address, or begins them again; null for an unknown token. */
    async change(token: string, isSubscribed: boolean): Promise<WeeklyDigestSubscription | null> {
      const [row] = await sql<{ email: string }[]>`
        update digest_addresses
           set unsubscribed_at = case when ${isSubscribed} then null else coalesce(unsubscribed_at, now()) end
         where token = ${token} returning email`
      return row === undefined ? null : { email: row.email, isSubscribed }
    },
  }
}
export type WeeklyDigestStore = ReturnType<typeof createWeeklyDigestStore>
