import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import { newPrefixedId } from '../../core/ids-and-api-keys.ts'
import { normalizeContactAddress } from '../../domain/notification-channel-types.ts'
import { newWebhookSecret } from '../../core/webhook-signature.ts'
import type { DeadLetterRequeuer } from '../dead-letter-store.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import { toUnquotedArrayLiteral, toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { createTableTail, type TableTail } from '../table-tail.ts'
import { sealWebhookSecret } from './webhook-store.ts'

/** An event of the outbox. */
export interface OutboxEvent {
  readonly id: bigint
  readonly agentId: string
  readonly backpackId: string | null
  readonly type: string
  readonly data: Record<string, unknown>
  readonly at: Date
}

/** The current pager of a Backpack. */
export interface BackpackPagerTargets {
  readonly backpackId: string
  readonly agentName: string
  readonly webhookUrl: string | null
  readonly ownerEmail: string | null
  readonly ownerTelegram: string | null
}

/** A recipient of an event. */
export interface WebhookEventTarget {
  readonly event: OutboxEvent
  readonly webhookId: string
}

const OUTBOX_TABLE = { table: 'outbox', columns: ['agent_id', 'backpack_id', 'type', 'data', 'at'] }

/** Routes outbox events to recipients: each event once, by one node at a time, in id order. */
export function createOutboxEventRoutingStore(sql: Sql, key: EncryptionKeys) {
  let tail: TableTail<OutboxEventRow> | null = null
  /** Whether an event was to be routed again when the position was last read. */
  let hasRetries = false

  /** The settled rows after the shared position of all nodes. */
  async function settledAfter(position: bigint): Promise<TableTail<OutboxEventRow>> {
    // A reader's knowledge of gaps is valid as long as no other node has moved the position.
    if (tail === null || tail.mark() !== position)
      tail = await createTableTail<OutboxEventRow>(sql, OUTBOX_TABLE, position)
    return tail
  }

  return {
    /** Whether events wait that are not routed yet, or are to be routed again. Takes no lock. */
    async hasEvents(): Promise<boolean> {
      const [row] = await sql<{ found: boolean }[]>`
        select exists (select from event_routing_retries) or exists (
          select from event_routing_cursor
           where name = 'outbox' and position < (select max(id) from outbox)) as found`
      return row?.found === true
    },

    /**
     * Passes the next events to `work`, in one transaction with the new position; `work` may return
     * how many it has processed. Returns their number; null if another node holds the lock. After a
     * failure the events are processed again.
     */
    async next(
      work: (tx: DatabaseTransaction, facts: readonly OutboxEvent[]) => Promise<number | void>,
    ): Promise<number | null> {
      try {
        return await sql.begin(async (tx) => {
          const [place] = await tx<{ position: bigint; retries: boolean }[]>`
            select position, exists (select from event_routing_retries) as retries
              from event_routing_cursor where name = 'outbox' for update skip locked`
          hasRetries = place?.retries === true
          if (place === undefined) return null
          const reader = await settledAfter(place.position)
          const facts = (await reader.read()).map(fromRow)
          const done = facts.length === 0 ? 0 : ((await work(tx, facts)) ?? facts.length)
          const isAll = done === facts.length
          const mark = isAll ? reader.mark() : (facts[done - 1]?.id ?? place.position)
          // The reader has passed unprocessed events.
          if (!isAll) tail = null
          if (mark !== place.position)
            await tx`update event_routing_cursor set position = ${mark} where name = 'outbox'`
          return done
        })
      } catch (error) {
        tail = null
        throw error
      }
    },

    /** Whether an event was to be routed again at the last `next`. */
    asked: (): boolean => hasRetries,

    /**
     * Passes a requeued event to `work`, in the transaction that deletes the request. False if
     * there is none.
     */
    async again(
      work: (tx: DatabaseTransaction, fact: OutboxEvent) => Promise<void>,
    ): Promise<boolean> {
      return sql.begin(async (tx) => {
        const asked = await tx<OutboxEventRow[]>`
          with asked as (
            delete from event_routing_retries where event_id = (
              select event_id from event_routing_retries order by event_id limit 1 for update skip locked)
            returning event_id)
          select o.id, o.agent_id, o.backpack_id, o.type, o.data, o.at
            from asked join outbox o on o.id = event_id`
        const [row] = asked
        if (row !== undefined) await work(tx, fromRow(row))
        return row !== undefined
      })
    },

    /** Runs a part of the transaction in a savepoint; returns its error, or null. */
    async apart(
      tx: DatabaseTransaction,
      work: () => Promise<void>,
    ): Promise<{ readonly error: unknown } | null> {
      await tx`savepoint part`
      try {
        await work()
        await tx`release savepoint part`
        return null
      } catch (error) {
        await tx`rollback to savepoint part`
        return { error }
      }
    },

    /** Whether rows wait for a gap before them to close. */
    waits: (): boolean => tail !== null && tail.waiting() > 0n,

    /** The agents' webhook subscriptions, locked against removal until the transaction ends. */
    async subscriptions(
      tx: DatabaseTransaction,
      agentIds: readonly string[],
    ): Promise<{ webhookId: string; agentId: string; events: readonly string[] }[]> {
      const rows = await tx<{ id: string; agent_id: string; events: string[] }[]>`
        select id, agent_id, events from webhooks
         where agent_id = any(${[...agentIds]}::text[]) and backpack_id is null and state = 'active'
         order by id for update`
      return rows.map((row) => ({ webhookId: row.id, agentId: row.agent_id, events: row.events }))
    },

    /** The pagers of Backpacks, from their snapshots. */
    async pagers(
      tx: DatabaseTransaction,
      packs: readonly { agentId: string; backpackId: string }[],
    ): Promise<BackpackPagerTargets[]> {
      const rows = await tx<BackpackPagerRow[]>`
        select id, state->'context'->>'agentName' as agent_name,
               state->'context'->'pager'->>'webhookUrl' as webhook_url,
               state->'context'->'pager'->>'ownerEmail' as owner_email,
               state->'context'->'pager'->>'ownerTelegram' as owner_telegram
          from unnest(${toTextArrayLiteral(packs.map(({ agentId }) => agentId))}::text[],
                      ${toTextArrayLiteral(packs.map(({ backpackId }) => backpackId))}::text[]) x(agent, pack)
          join actors on aggregate_id = agent and kind = 'backpack' and id = pack`
      return rows.map((row) => ({
        backpackId: row.id,
        agentName: row.agent_name,
        webhookUrl: row.webhook_url,
        ownerEmail:
          row.owner_email === null ? null : normalizeContactAddress('email', row.owner_email),
        ownerTelegram:
          row.owner_telegram === null
            ? null
            : normalizeContactAddress('telegram', row.owner_telegram),
      }))
    },

    /**
     * The receiver of a pager's address; a changed address is tried at once with all that waits.
     * Null while disabled.
     */
    async pagerWebhook(
      tx: DatabaseTransaction,
      pager: { agentId: string; backpackId: string; url: string; at: Date },
    ): Promise<string | null> {
      const { agentId, backpackId, url, at } = pager
      const id = newPrefixedId('wh')
      const sealed = sealWebhookSecret(key, agentId, id, newWebhookSecret())
      await tx`
        with moved as (
          update webhooks set url = ${url}, state = 'active', disabled_reason = null, disabled_at = null,
                 failures = 0, failing_since = null, last_ms = 0, due_at = ${at}
           where backpack_id = ${backpackId} and url <> ${url} returning id)
        update deliveries d set due_at = ${at} from moved
         where d.webhook_id = moved.id and d.state = 'pending' and d.due_at > ${at}`
      const [row] = await tx<{ id: string; state: string }[]>`
        insert into webhooks (id, agent_id, backpack_id, url, events, sealed, state, created_at)
        values (${id}, ${agentId}, ${backpackId}, ${url}, '{pager}', ${sealed}::bytea, 'active', ${at})
        on conflict (backpack_id) do update set url = excluded.url
        returning id, state`
      return row?.state === 'active' ? row.id : null
    },

    /**
     * Adds a delivery per recipient, once; receivers with `most` waiting deliveries are skipped,
     * which is counted.
     */
    async address(
      tx: DatabaseTransaction,
      list: readonly WebhookEventTarget[],
      most: number,
      now: Date,
    ): Promise<void> {
      if (list.length === 0) return
      const ids = toUnquotedArrayLiteral(list.map(({ event }) => event.id))
      const webhooks = toTextArrayLiteral(list.map(({ webhookId }) => webhookId))
      const names = toTextArrayLiteral(list.map(() => newPrefixedId('msg')))
      const full = await tx<{ id: string }[]>`
        select id from (select distinct unnest(${webhooks}::text[]) as id) x
         where exists (select from deliveries d where d.webhook_id = x.id and d.state = 'pending'
                       offset ${most - 1})`
      const passed = toTextArrayLiteral(full.map(({ id }) => id))
      await tx`
        insert into deliveries (id, webhook_id, event_id, type, data, at, state, due_at, created_at)
        select n, w, o.id, o.type, o.data || jsonb_build_object('agent_id', o.agent_id), o.at,
               'pending', ${now}, ${now}
          from unnest(${names}::text[], ${webhooks}::text[], ${ids}::bigint[]) x(n, w, e)
          join outbox o on o.id = e
         where w <> all(${passed}::text[]) order by e
        on conflict (webhook_id, event_id) do nothing`
      await tx`
        update webhooks w set
          due_at = case when id = any(${passed}::text[]) then due_at else coalesce(due_at, ${now}) end,
          dropped = dropped + case when id = any(${passed}::text[]) then n else 0 end
          from (select i, count(*) as n from unnest(${webhooks}::text[]) i group by i) x where w.id = i`
    },
  }
}
export type OutboxEventRouterStore = ReturnType<typeof createOutboxEventRoutingStore>

/** Requeuer of dead letters of kind `fact`: routes the event again. */
export const requeueOutboxEvent: DeadLetterRequeuer = async (tx, { payload }) => {
  const asked = await tx`
    insert into event_routing_retries select id from outbox where id = ${String(payload['event_id'])}::bigint
    on conflict do nothing`
  if (asked.count === 0) throw new Error('this fact is not kept any more')
}

interface OutboxEventRow {
  id: bigint
  agent_id: string
  backpack_id: string | null
  type: string
  data: Record<string, unknown>
  at: Date
}

interface BackpackPagerRow {
  id: string
  agent_name: string
  webhook_url: string | null
  owner_email: string | null
  owner_telegram: string | null
}

const fromRow = (row: OutboxEventRow): OutboxEvent => ({
  id: row.id,
  agentId: row.agent_id,
  backpackId: row.backpack_id,
  type: row.type,
  data: row.data,
  at: row.at,
})
