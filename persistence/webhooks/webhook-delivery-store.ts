import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import { newPrefixedId } from '../../core/ids-and-api-keys.ts'
import type { DeadLetterStore, DeadLetterRequeuer } from '../dead-letter-store.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import {
  toClaimedWebhookDeliveries,
  toWebhookDelivery,
  type ClaimedWebhookDeliveryRow,
  type ClaimedWebhookDelivery,
  type WebhookDeliveryRow,
  type WebhookDelivery,
  type WebhookDeliveryState,
} from './webhook-delivery-rows.ts'

/** Webhook deliveries: claims, attempts and their results. */

export interface ClaimWebhookDeliveriesInput {
  readonly now: Date
  /** End of the lease, after which another node may try. */
  readonly until: Date
  readonly lease: string
  readonly most: number
  /** True for failing or slow receivers; false for healthy ones. */
  readonly troubled: boolean
  /** Receivers this node is busy with. */
  readonly except: readonly string[]
  /** Maximum of concurrent receivers per agent on this node. */
  readonly share: number
  /** Concurrent receivers of each agent now. */
  readonly busy: ReadonlyMap<string, number>
}

/** The result of an attempt and its consequences. */
export interface WebhookAttemptResult {
  readonly at: Date
  readonly ms: number
  readonly status: number | null
  readonly error: string | null
  readonly state: WebhookDeliveryState
  /** When it is tried again, if it is still pending. */
  readonly dueAt: Date
  /** Later deliveries may overtake it from now on. */
  readonly aside: boolean
  /** Why the receiver is disabled; null if it is not. */
  readonly disable: string | null
}

/** A slower receiver is queued with the failing ones. */
const SLOW_RECEIVER_MS = 1_000

/**
 * Stores pending deliveries. A receiver gets its deliveries in order, one at a time, from one node
 * at a time under a lease that outlasts an attempt.
 */
export function createWebhookDeliveryStore(
  sql: Sql,
  key: EncryptionKeys,
  letters: Pick<DeadLetterStore, 'put'>,
) {
  /** Releases a receiver without an attempt. */
  async function letGo(
    claimed: Pick<ClaimedWebhookDelivery, 'webhookId' | 'lease'>,
    at: Date,
  ): Promise<void> {
    await sql.begin(async (tx) => {
      await tx`select from webhooks where id = ${claimed.webhookId} for update`
      await releaseReceiver(tx, claimed, at)
    })
  }

  return {
    letGo,

    /** Claims due receivers, each with its next delivery. */
    async claim(wanted: ClaimWebhookDeliveriesInput): Promise<ClaimedWebhookDelivery[]> {
      const { now, until, lease, most, troubled, except, share, busy } = wanted
      const taken = await sql<{ id: string }[]>`
        with busy as (
          select * from unnest(${[...busy.keys()]}::text[], ${[...busy.values()]}::int[]) x(agent_id, n)),
        due as (
          select id, agent_id, due_at from webhooks
           where state = 'active' and due_at <= ${now} and (lease_until is null or lease_until <= ${now})
             and (failures > 0 or last_ms > ${SLOW_RECEIVER_MS}) = ${troubled}
             and id <> all(${[...except]}::text[])
             and agent_id <> all(array(select agent_id from busy where n >= ${share}))
           order by due_at limit ${most} for update skip locked),
        shared as (
          select id, coalesce(n, 0) + row_number() over (partition by agent_id order by due_at) as nth
            from due left join busy using (agent_id))
        update webhooks w set lease = ${lease}, lease_until = ${until}
          from shared s where w.id = s.id and s.nth <= ${share} returning w.id`
      if (taken.length === 0) return []
      const ids = taken.map(({ id }) => id)
      // A separate statement: the claiming one does not see what was settled since it began.
      const rows = await sql<ClaimedWebhookDeliveryRow[]>`
        select w.id as webhook_id, w.agent_id, w.sealed, w.failing_since,
               case when w.before_until > ${now} then w.sealed_before end as sealed_before,
               case when w.backpack_id is null then w.url
                    else a.state->'context'->'pager'->>'webhookUrl' end as url,
               d.id, d.type, d.data, d.at, d.attempts, d.answered
          from webhooks w
          left join actors a on a.aggregate_id = w.agent_id and a.kind = 'backpack' and a.id = w.backpack_id
          left join lateral (
            select * from deliveries d
             where d.webhook_id = w.id and d.state = 'pending' and d.due_at <= ${now}
               and (d.aside or d.seq = (select min(h.seq) from deliveries h
                     where h.webhook_id = w.id and h.state = 'pending' and not h.aside))
             order by d.seq limit 1) d on true
         where w.id = any(${ids}::text[]) and w.lease = ${lease}`
      const idle = rows.filter(({ id }) => id === null)
      for (const { webhook_id: webhookId } of idle) await letGo({ webhookId, lease }, now)
      return rows.flatMap((row) => toClaimedWebhookDeliveries(row, key, lease))
    },

    /** When the next receiver is due, or its lease ends; null while none has a delivery. */
    async nextDueAt(): Promise<Date | null> {
      const [row] = await sql<{ due: Date | null }[]>`
        select min(greatest(due_at, lease_until)) as due from webhooks
         where state = 'active' and due_at is not null`
      return row?.due ?? null
    },

    /** Records an attempt and releases the receiver. Idempotent. */
    async settle(claimed: ClaimedWebhookDelivery, attempt: WebhookAttemptResult): Promise<void> {
      await sql.begin(async (tx) => {
        // Locked first: writers of deliveries hold this row, so the counts below are complete.
        const [held] = await tx`select from webhooks where id = ${claimed.webhookId} for update`
        if (held === undefined) return
        if (await recordAttempt(tx, claimed, attempt)) {
          await updateReceiver(tx, claimed, attempt)
          if (attempt.state === 'failed') await letters.put(toDeadLetter(claimed, attempt), tx)
        }
        await releaseReceiver(tx, claimed, attempt.at)
      })
    },

    /** Newest first; `before` is a delivery's `seq`. */
    async listOf(
      webhookId: string,
      filter: { state: WebhookDeliveryState | null },
      limit: number,
      before: string | null,
    ): Promise<WebhookDelivery[]> {
      const rows = await sql<WebhookDeliveryRow[]>`
        select * from deliveries where webhook_id = ${webhookId}
           and (${filter.state}::text is null or state = ${filter.state})
           and (${before}::bigint is null or seq < ${before}::bigint)
         order by seq desc limit ${limit}`
      return rows.map(toWebhookDelivery)
    },

    /** Sends a settled delivery again under its id; null if there is no such delivery. */
    async replay(
      tx: DatabaseTransaction,
      webhookId: string,
      id: string,
      at: Date,
    ): Promise<WebhookDelivery | null> {
      const again = await requeueDelivery(tx, webhookId, id, at)
      if (again !== null) return again
      const [waiting] = await tx<WebhookDeliveryRow[]>`
        select * from deliveries where id = ${id} and webhook_id = ${webhookId}`
      return waiting === undefined ? null : toWebhookDelivery(waiting)
    },

    /** Adds a delivery without an event; null, and counted, if `most` are waiting. */
    async addTest(
      tx: DatabaseTransaction,
      webhookId: string,
      { data, most, at }: { data: object; most: number; at: Date },
    ): Promise<string | null> {
      const full = await tx`
        update webhooks set dropped = dropped + 1 where id = ${webhookId}
           and exists (select from deliveries where webhook_id = ${webhookId} and state = 'pending'
                       offset ${most - 1})`
      if (full.count === 1) return null
      const id = newPrefixedId('msg')
      await tx`update webhooks set due_at = coalesce(due_at, ${at}) where id = ${webhookId}`
      await tx`
        insert into deliveries (id, webhook_id, type, data, at, state, due_at, created_at)
        values (${id}, ${webhookId}, 'test', ${JSON.stringify(data)}::text::jsonb, ${at}, 'pending', ${at}, ${at})`
      return id
    },

    /**
     * Waiting deliveries, failures of the last day, and the age of the oldest waiting one in
     * seconds.
     */
    async counts(now: Date): Promise<{ pending: number; failed: number; oldestSeconds: number }> {
      const [row] = await sql<{ pending: bigint; failed: bigint; oldest: Date | null }[]>`
        select (select count(*) from deliveries where state = 'pending') as pending,
               (select count(*) from deliveries
                 where state <> 'pending' and settled_at > ${now}::timestamptz - interval '1 day'
                   and state = 'failed') as failed,
               (select min(created_at) from deliveries where state = 'pending') as oldest`
      const oldest = row?.oldest ?? null
      return {
        pending: Number(row?.pending ?? 0n),
        failed: Number(row?.failed ?? 0n),
        oldestSeconds:
          oldest === null ? 0 : Math.max(0, (now.getTime() - oldest.getTime()) / 1_000),
      }
    },

    /**
     * Deletes deliveries settled before `since`, or waiting since before it for a removed receiver.
     */
    async sweep(since: Date): Promise<void> {
      await sql`delete from deliveries where state <> 'pending' and settled_at < ${since}`
      await sql`delete from deliveries where state = 'pending' and created_at < ${since}`
    },
  }
}
export type WebhookDeliveryStore = ReturnType<typeof createWebhookDeliveryStore>

const toDeadLetter = (
  { id, webhookId }: ClaimedWebhookDelivery,
  { status, error }: WebhookAttemptResult,
) => ({
  kind: 'webhook',
  key: id,
  reason: error ?? `answered ${status}`,
  payload: { webhook_id: webhookId, delivery_id: id },
})

/** Requeuer of dead letters of kind `webhook`: makes the delivery due again. */
export const requeueWebhookDelivery: DeadLetterRequeuer = async (tx, { payload }) => {
  const [webhookId, id] = [String(payload['webhook_id']), String(payload['delivery_id'])]
  const [found] = await tx<{ state: WebhookDeliveryState }[]>`
    select state from deliveries where id = ${id} and webhook_id = ${webhookId} for update`
  if (found === undefined) throw new Error('this delivery is not kept any more')
  if (found.state === 'delivered') throw new Error('it has been delivered since')
  await requeueDelivery(tx, webhookId, id, null)
}

/** Appends a settled delivery to the waiting ones with a new age; null if there is none. */
async function requeueDelivery(
  tx: DatabaseTransaction,
  webhookId: string,
  id: string,
  at: Date | null,
): Promise<WebhookDelivery | null> {
  await tx`update webhooks set due_at = coalesce(due_at, ${at}, clock_timestamp()) where id = ${webhookId}`
  const [row] = await tx<WebhookDeliveryRow[]>`
    update deliveries set state = 'pending', attempts = 0, answered = 0, aside = false,
           due_at = coalesce(${at}, clock_timestamp()), settled_at = null, seq = default,
           created_at = coalesce(${at}, clock_timestamp())
     where id = ${id} and webhook_id = ${webhookId} and state <> 'pending' returning *`
  return row === undefined ? null : toWebhookDelivery(row)
}

/** False if it was recorded already, or the delivery is gone. */
async function recordAttempt(
  tx: DatabaseTransaction,
  claimed: ClaimedWebhookDelivery,
  attempt: WebhookAttemptResult,
): Promise<boolean> {
  const { at, ms, status, error, state, dueAt, aside } = attempt
  const kept = await tx`
    update deliveries set attempts = attempts + 1,
           answered = answered + ${status === null ? 0 : 1}, state = ${state}, aside = ${aside},
           due_at = ${dueAt}, status = ${status}, error = ${error}, ms = ${ms}, last_at = ${at},
           settled_at = ${state === 'pending' ? null : at}
     where id = ${claimed.id} and state = 'pending' and attempts = ${claimed.attempts}`
  return kept.count === 1
}

/** Updates the receiver's state after an attempt. */
async function updateReceiver(
  tx: DatabaseTransaction,
  claimed: ClaimedWebhookDelivery,
  attempt: WebhookAttemptResult,
): Promise<void> {
  const { webhookId } = claimed
  const { at, ms, state, disable } = attempt
  if (state === 'delivered') {
    await tx`update webhooks set failures = 0, failing_since = null, last_ms = ${ms} where id = ${webhookId}`
    // The receiver works again: its next delivery need not wait any longer.
    await tx`update deliveries set due_at = ${at}
      where webhook_id = ${webhookId} and state = 'pending' and not aside and due_at > ${at}`
    return
  }
  await tx`
    update webhooks set failures = failures + 1, failing_since = coalesce(failing_since, ${at}), last_ms = ${ms}
     where id = ${webhookId}`
  if (disable === null) return
  const stopped = await tx`
    update webhooks set state = 'disabled', disabled_reason = ${disable}, disabled_at = ${at}
     where id = ${webhookId} and state = 'active' returning backpack_id`
  if (stopped.count === 0) return
  const told = { webhook_id: webhookId, url: claimed.url, reason: disable }
  await tx`
    insert into outbox (agent_id, type, data, at)
    values (${claimed.agentId}, 'webhook.disabled', ${JSON.stringify(told)}::text::jsonb, ${at})`
}

/** Ends the lease and sets when the receiver is due next. */
async function releaseReceiver(
  tx: DatabaseTransaction,
  { webhookId, lease }: Pick<ClaimedWebhookDelivery, 'webhookId' | 'lease'>,
  at: Date,
): Promise<void> {
  await tx`
    update webhooks w set
      lease = case when lease = ${lease} then null else lease end,
      lease_until = case when lease = ${lease} then null else lease_until end,
      due_at = (select min(greatest(due_at, ${at}::timestamptz)) from (
        (select due_at from deliveries d where d.webhook_id = w.id and d.state = 'pending' and not d.aside
          order by d.seq limit 1)
        union all
        (select min(due_at) from deliveries d where d.webhook_id = w.id and d.state = 'pending' and d.aside)) next
       where due_at is not null)
     where id = ${webhookId}`
}
