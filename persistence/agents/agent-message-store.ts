import { DAY, msUntilNextUtcDay, SECOND } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { rateLimitError } from '../../core/rate-limit-error.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Messages between agents. */

const MESSAGES_TO_ONE = {
  name: 'messages',
  subject: 'messages to one recipient',
  max: LIMITS.messagesToOnePerDay,
  per: 'agent',
  windowSeconds: DAY / SECOND,
} as const

export interface StoredAgentMessage {
  readonly id: string
  readonly from: string
  readonly to: string
  /** `message`, or `ping` from the tool of that name. */
  readonly kind: string
  readonly subject: string | null
  readonly body: string
  readonly at: Date
  readonly expiresAt: Date
}

/**
 * Stores messages between agents until they expire; each side removes a message from its own view
 * only. Removal also redacts the text in that side's streams and webhooks.
 */
export function createAgentMessageStore(sql: Sql) {
  return {
    /**
     * Stores a message and the event that notifies its recipient. Rejects with `rate_limited` (429) above
     * `LIMITS.messagesToOnePerDay`: a stranger cannot flood an inbox.
     */
    async send(tx: DatabaseTransaction, message: StoredAgentMessage): Promise<void> {
      const { id, to, from, kind, subject, body, at, expiresAt } = message
      const day = new Date(at.getTime() + msUntilNextUtcDay(at.getTime()) - DAY)
      await tx`select pg_advisory_xact_lock(hashtextextended(${`messages:${from}:${to}`}, 0))`
      const [sent] = await tx<{ count: bigint }[]>`
        select count(*) from messages
         where from_agent = ${from} and to_agent = ${to} and at >= ${day}`
      if (Number(sent?.count ?? 0) >= LIMITS.messagesToOnePerDay)
        throw rateLimitError(MESSAGES_TO_ONE, Math.ceil(msUntilNextUtcDay(at.getTime()) / SECOND))
      await tx`
        insert into messages (id, to_agent, from_agent, kind, subject, body, at, expires_at)
        values (${id}, ${to}, ${from}, ${kind}, ${subject}, ${body}, ${at}, ${expiresAt})`
      const told = { kind, message_id: id, from_agent_id: from, subject, message: body, at }
      await tx`
        insert into outbox (agent_id, type, data, at)
        values (${to}, 'agent_ping', ${JSON.stringify(told)}::text::jsonb, ${at})`
    },

    /** Messages to an agent, newest first; `before` is the id of the last one seen. */
    async inboxOf(agentId: string, now: Date, limit: number, before: string | null) {
      const rows = await sql<MessageRow[]>`
        select * from messages
         where to_agent = ${agentId} and recipient_removed_at is null and expires_at > ${now}
           and (${before}::uuid is null or id < ${before}::uuid)
         order by id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** Messages from an agent, newest first. */
    async sentBy(agentId: string, now: Date, limit: number, before: string | null) {
      const rows = await sql<MessageRow[]>`
        select * from messages
         where from_agent = ${agentId} and sender_removed_at is null and expires_at > ${now}
           and (${before}::uuid is null or id < ${before}::uuid)
         order by id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** Removes a message from the agent's view; false if it is in none of its views. */
    async remove(
      tx: DatabaseTransaction,
      agentId: string,
      id: string,
      now: Date,
    ): Promise<boolean> {
      const [removed] = await tx<{ id: string }[]>`
        update messages set
          recipient_removed_at = case when to_agent = ${agentId} then ${now}::timestamptz
            else recipient_removed_at end,
          sender_removed_at = case when from_agent = ${agentId} then ${now}::timestamptz
            else sender_removed_at end
         where id = ${id} and expires_at > ${now}
           and ((to_agent = ${agentId} and recipient_removed_at is null)
             or (from_agent = ${agentId} and sender_removed_at is null))
         returning id`
      if (removed !== undefined) await redactMessageText(tx, [removed.id], agentId)
      return removed !== undefined
    },

    /** Deletes expired messages; returns their number. */
    async sweep(now: Date): Promise<number> {
      return sql.begin(async (tx) => {
        const gone = await tx<{ id: string }[]>`
          delete from messages where expires_at <= ${now} returning id`
        const ids = gone.map(({ id }) => id)
        if (ids.length > 0) await redactMessageText(tx, ids)
        return gone.length
      })
    },
  }
}
export type AgentMessageStore = ReturnType<typeof createAgentMessageStore>

/**
 * Redacts the text of messages in their events, for one recipient or all, and in what webhooks have
 * sent. Pending webhook deliveries keep the text.
 */
async function redactMessageText(
  tx: DatabaseTransaction,
  ids: readonly string[],
  recipient: string | null = null,
) {
  await tx`
    with told as (
      update outbox set data = data || '{"subject": null, "message": null}'
       where type = 'agent_ping' and data->>'message_id' = any(${toTextArrayLiteral(ids)}::text[])
         and (${recipient}::text is null or agent_id = ${recipient}) returning id, agent_id)
    update deliveries d set data = d.data || '{"subject": null, "message": null}'
      from told join webhooks w on w.agent_id = told.agent_id
     where d.webhook_id = w.id and d.event_id = told.id and d.state <> 'pending'`
}

interface MessageRow {
  id: string
  from_agent: string
  to_agent: string
  kind: string
  subject: string | null
  body: string
  at: Date
  expires_at: Date
}

const fromRow = (row: MessageRow): StoredAgentMessage => ({
  id: row.id,
  from: row.from_agent,
  to: row.to_agent,
  kind: row.kind,
  subject: row.subject,
  body: row.body,
  at: row.at,
  expiresAt: row.expires_at,
})
