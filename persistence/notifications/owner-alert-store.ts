import { DAY } from '../../core/clock.ts'
import { isUuid, newUuidV7 } from '../../core/ids-and-api-keys.ts'
import {
  normalizeContactAddress,
  type NotificationChannelName,
} from '../../domain/notification-channel-types.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import { toUnquotedArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Alerts to the owners of agents and Backpacks. */

export type OwnerAlertDeliveryState = 'pending' | 'sent' | 'failed' | 'not_sent'

/** An alert to the owner of an agent, or of a Backpack. */
export interface NewOwnerAlert {
  /** Deduplicates alerts: a second one with this key is skipped. */
  readonly key: string
  readonly agentId: string
  readonly topic: string
  readonly channel: NotificationChannelName
  readonly address: string | null
  readonly subject: string
  readonly body: string
  readonly at: Date
  readonly dueAt?: Date
  /** Urgent: has its own daily limit. */
  readonly critical?: boolean
  /** Why it is only recorded: no recipient, or no channel. */
  readonly notSent?: string
  /** Ends messages of this kind. */
  readonly unsubscribeUrl?: string
}

export interface OwnerAlert {
  readonly id: string
  readonly agentId: string
  readonly topic: string
  readonly critical: boolean
  readonly channel: NotificationChannelName
  readonly address: string
  readonly subject: string
  readonly body: string
  /** Lines beyond those in the body. */
  readonly omittedLines: number
  readonly attempts: number
  readonly unsubscribeUrl: string | null
}

/** A claim on alerts, exclusive to this node until `until`. */
export interface OwnerAlertClaim {
  readonly channel: NotificationChannelName
  readonly now: Date
  readonly until: Date
  readonly max: number
  /** Alerts this node is already sending. */
  readonly except: readonly string[]
}

/** Daily limits per address. */
export interface OwnerAlertDailyLimits {
  /** Caused by one agent; critical and other alerts are counted separately. */
  readonly perAgent: number
  /** Caused by any agent, without critical ones. */
  readonly perAddress: number
}

/** The last alert, to show whether delivery works. */
export interface LastOwnerAlertDeliveryState {
  readonly topic: string
  readonly channel: NotificationChannelName
  readonly state: OwnerAlertDeliveryState
  readonly reason: string | null
  readonly at: Date
}

/** The owner's contact of an agent, with the facts that alerts mention. */
export interface AgentOwnerContact {
  readonly agentId: string
  readonly name: string
  /** Normalized, like the chat id: limits are counted per address. */
  readonly email: string | null
  readonly telegram: string | null
  /** The current deposit address. */
  readonly wallet: string | null
}

const MAX_DIGEST_LINES = 50
/** The topic of alerts of Backpack pagers. */
export const PAGER_ALERT_TOPIC = 'pager'
/** The topic of weekly digests: they go to the confirmed address, until it is unsubscribed. */
export const WEEKLY_DIGEST_TOPIC = 'weekly_digest'

/** Stores alerts. Each is sent by one node at a time until it is settled. */
export function createOwnerAlertStore(sql: Sql) {
  /** The owners of agents; missing agents have none. */
  async function ownersOf(
    agentIds: readonly string[],
    db: Sql | DatabaseTransaction = sql,
  ): Promise<Map<string, AgentOwnerContact>> {
    const rows = await db<OwnerRow[]>`
      select a.agent_id, a.name, a.owner_email, a.owner_telegram,
             (select address from wallets w where w.agent_id = a.agent_id and w.status = 'active'
               order by created_at desc limit 1) as wallet
        from agents a where a.agent_id = any(${toUnquotedArrayLiteral(agentIds.filter(isUuid))}::uuid[])`
    return new Map(rows.map((row) => [row.agent_id, toOwnerContact(row)]))
  }

  return {
    ownersOf,

    /** Adds an alert once. Returns its id; null if it existed. */
    add: insertAlert,

    /**
     * An alert as it is sent now, to the owner's current address; null without one. A Backpack
     * pager's alert keeps its original address, and so does a digest while that takes digests.
     */
    async toOwner(alert: OwnerAlert): Promise<OwnerAlert | null> {
      const { id, agentId, channel, topic, attempts } = alert
      if (topic === PAGER_ALERT_TOPIC) return alert
      if (topic === WEEKLY_DIGEST_TOPIC) return (await takesDigests(sql, alert)) ? alert : null
      const owner = (await ownersOf([agentId])).get(agentId)
      const address = (channel === 'email' ? owner?.email : owner?.telegram) ?? null
      if (address === null) return null
      if (address === alert.address) return alert
      await sql`update alerts set address = ${address}
        where id = ${id} and state = 'pending' and attempts = ${attempts}`
      return { ...alert, address }
    },

    /** Adds a line to the digest of that key, which is sent when due. */
    async addLine(
      tx: DatabaseTransaction,
      alert: NewOwnerAlert & { readonly dueAt: Date },
    ): Promise<void> {
      const { key, agentId, topic, channel, address, subject, body, at, dueAt } = alert
      await tx`
        insert into alerts as a (id, key, agent_id, topic, channel, address, subject, body, state,
                                 due_at, created_at)
        values (${newUuidV7(at.getTime())}, ${key}, ${agentId}, ${topic}, ${channel}, ${address},
                ${subject}, ${body}, 'pending', ${dueAt}, ${at})
        on conflict (key) do update set lines = a.lines + 1,
          body = case when a.lines < ${MAX_DIGEST_LINES} then a.body || E'\n' || excluded.body else a.body end`
    },

    /**
     * Whether a threshold alert may be sent now, and marks it as sent. A mark with `sent` false never blocks.
     */
    async mark(
      tx: DatabaseTransaction,
      mark: {
        agentId: string
        level: string
        channel: NotificationChannelName
        sent: boolean
        at: Date
      },
      hours: number,
    ): Promise<boolean> {
      const { agentId, level, channel, sent, at } = mark
      const marked = await tx`
        insert into alert_cooldowns as m (agent_id, level, channel, sent, at)
        values (${agentId}, ${level}, ${channel}, ${sent}, ${at})
        on conflict (agent_id, level, channel) do update set sent = excluded.sent, at = excluded.at
         where m.at <= excluded.at - make_interval(hours => ${hours}) or (excluded.sent and not m.sent)`
      return marked.count === 1
    },

    /** Due alerts of a channel, oldest first. */
    async claim({ channel, now, until, max, except }: OwnerAlertClaim): Promise<OwnerAlert[]> {
      const rows = await sql<AlertRow[]>`
        update alerts set lease_until = ${until} where id in (
          select id from alerts where state = 'pending' and channel = ${channel} and due_at <= ${now}
             and (lease_until is null or lease_until <= ${now}) and id <> all(${[...except]}::text[])
           order by due_at limit ${max} for update skip locked) returning *`
      return rows.map(fromRow)
    },

    /** When the next alert of each channel is due, or its lease ends. Channels without one are missing. */
    async nextDueAts(): Promise<ReadonlyMap<NotificationChannelName, Date>> {
      const rows = await sql<{ channel: NotificationChannelName; due: Date }[]>`
        select channel, min(greatest(due_at, lease_until)) as due from alerts
         where state = 'pending' group by channel`
      return new Map(rows.map(({ channel, due }) => [channel, due]))
    },

    /** Extends this node's claim on alerts that are still being sent. */
    async renew(ids: readonly string[], until: Date): Promise<void> {
      await sql`update alerts set lease_until = ${until}
        where id = any(${[...ids]}::text[]) and state = 'pending'`
    },

    /** Claims one alert; null if it is settled or claimed by another node. */
    async claimOne(id: string, now: Date, until: Date): Promise<OwnerAlert | null> {
      const [row] = await sql<AlertRow[]>`
        update alerts set lease_until = ${until} where id = ${id} and state = 'pending'
           and (lease_until is null or lease_until <= ${now}) returning *`
      return row === undefined ? null : fromRow(row)
    },

    /**
     * Records the result of an attempt; with `dueAt` it is retried then. A threshold alert that
     * failed is not marked as sent: the next crossing sends it.
     */
    async settle(
      { id, attempts }: Pick<OwnerAlert, 'id' | 'attempts'>,
      done: { state: OwnerAlertDeliveryState; reason: string | null; at: Date; dueAt?: Date },
    ): Promise<void> {
      const { state, reason, at, dueAt = at } = done
      await sql`
        with settled as (
          update alerts set state = ${state}, reason = ${reason}, attempts = attempts + 1,
                 lease_until = null, due_at = ${dueAt},
                 settled_at = ${state === 'pending' ? null : at}
           where id = ${id} and state = 'pending' and attempts = ${attempts}
          returning agent_id, topic, channel, state, created_at),
        unheard as (
          select m.agent_id, m.channel, m.at from settled s join alert_cooldowns m
              on m.agent_id = s.agent_id and m.channel = s.channel
                 and s.topic = 'low_balance.' || m.level and m.at <= s.created_at
           where s.state = 'failed')
        update alert_cooldowns m set sent = false from unheard u
         where m.agent_id = u.agent_id and m.channel = u.channel and m.at = u.at`
    },

    /**
     * Postpones an alert to `dueAt` because its address has reached its limit; counts no attempt
     * and records the reason.
     */
    async postpone(
      { id, attempts }: Pick<OwnerAlert, 'id' | 'attempts'>,
      reason: string,
      dueAt: Date,
    ): Promise<void> {
      await sql`update alerts set reason = ${reason}, lease_until = null, due_at = ${dueAt}
        where id = ${id} and state = 'pending' and attempts = ${attempts}`
    },

    /**
     * When the address can take another alert of this agent: null for now, else after the agent's
     * waiting alerts at the daily limit. Any agent may name an address: those with a confirmed one are bounded
     * by themselves, and not by what others have sent (decision 363).
     */
    async turnOf(
      alert: OwnerAlert,
      { perAgent, perAddress }: OwnerAlertDailyLimits,
      now: Date,
    ): Promise<Date | null> {
      const { id, agentId, channel, address, critical } = alert
      const [row] = await sql<{ own: Date | null; all: Date | null; waiting: Date | null }[]>`
        with sent as (
          select agent_id, critical, settled_at from alerts
           where state = 'sent' and channel = ${channel} and address = ${address}
             and settled_at > ${now}::timestamptz - interval '1 day')
        select (select settled_at from sent where agent_id = ${agentId} and critical = ${critical}
                 order by settled_at desc offset ${perAgent - 1} limit 1) as own,
               (select settled_at from sent where not critical and not ${critical} and not exists (
                   select from confirmed_contacts c
                    where c.agent_id::text = ${agentId} and c.email = lower(${address}))
                 order by settled_at desc offset ${perAddress - 1} limit 1) as all,
               (select max(due_at) from alerts
                 where state = 'pending' and agent_id = ${agentId} and channel = ${channel}
                   and address = ${address} and critical = ${critical} and due_at > ${now}
                   and id <> ${id}) as waiting`
      const full = [row?.own, row?.all].filter((at) => at instanceof Date)
      if (full.length === 0) return null
      const free = Math.max(...full.map((at) => at.getTime() + DAY))
      return new Date(Math.max(free, (row?.waiting?.getTime() ?? 0) + DAY / perAgent))
    },

    /**
     * Adds alerts that an agent requested, one per channel, unless it made `most` requests since
     * then. Returns their ids in order, or when it may request again.
     */
    async addLimited(
      alerts: readonly [NewOwnerAlert, ...NewOwnerAlert[]],
      { most, since }: { most: number; since: Date },
    ): Promise<{ ids: string[] } | { freeAt: Date }> {
      const [{ agentId, topic }] = alerts
      return sql.begin(async (tx) => {
        await tx`select pg_advisory_xact_lock(hashtextextended(${`alerts:${agentId}:${topic}`}, 0))`
        const [row] = await tx<{ n: bigint; first: Date | null }[]>`
          select count(*) as n, min(created_at) as first from alerts
           where agent_id = ${agentId} and topic = ${topic} and created_at > ${since}
           group by channel order by n desc limit 1`
        if (row !== undefined && row.first !== null && row.n >= most) return { freeAt: row.first }
        const ids = []
        for (const alert of alerts) ids.push((await insertAlert(tx, alert)) ?? '')
        return { ids }
      })
    },

    /** The newest alert about an agent. */
    async lastOf(agentId: string): Promise<LastOwnerAlertDeliveryState | null> {
      const [row] = await sql<LastOwnerAlertDeliveryState[]>`
        select topic, channel, state, reason, coalesce(settled_at, created_at) as at from alerts
         where agent_id = ${agentId} order by created_at desc, id desc limit 1`
      return row ?? null
    },

    async sweep(since: Date): Promise<void> {
      await sql`delete from alerts where state <> 'pending' and settled_at < ${since}`
    },
  }
}
export type OwnerAlertStore = ReturnType<typeof createOwnerAlertStore>

/** Whether the address is the confirmed one of the agent and is not unsubscribed. */
async function takesDigests(sql: Sql, { agentId, address }: OwnerAlert): Promise<boolean> {
  const [row] = await sql`
    select from confirmed_contacts c join agents a using (agent_id)
      join digest_addresses d on d.email = c.email
     where c.agent_id = ${agentId} and c.email = ${address} and lower(a.contact_email) = c.email
       and d.unsubscribed_at is null`
  return row !== undefined
}

/** Its id; null if the same alert existed. */
async function insertAlert(tx: DatabaseTransaction, alert: NewOwnerAlert): Promise<string | null> {
  const { key, agentId, topic, channel, address, subject, body, at } = alert
  const { dueAt = at, notSent = null, critical = false, unsubscribeUrl = null } = alert
  const state: OwnerAlertDeliveryState = notSent === null ? 'pending' : 'not_sent'
  const [row] = await tx<{ id: string }[]>`
    insert into alerts (id, key, agent_id, topic, channel, address, subject, body, critical, state,
                        reason, due_at, created_at, settled_at, unsubscribe_url)
    values (${newUuidV7(at.getTime())}, ${key}, ${agentId}, ${topic}, ${channel}, ${address},
            ${subject}, ${body}, ${critical}, ${state}, ${notSent}, ${dueAt}, ${at},
            ${notSent === null ? null : at}, ${unsubscribeUrl})
    on conflict (key) do nothing returning id`
  return row?.id ?? null
}

interface OwnerRow {
  agent_id: string
  name: string
  owner_email: string | null
  owner_telegram: string | null
  wallet: string | null
}

const toOwnerContact = (row: OwnerRow): AgentOwnerContact => ({
  agentId: row.agent_id,
  name: row.name,
  email: row.owner_email === null ? null : normalizeContactAddress('email', row.owner_email),
  telegram:
    row.owner_telegram === null ? null : normalizeContactAddress('telegram', row.owner_telegram),
  wallet: row.wallet,
})

interface AlertRow {
  id: string
  agent_id: string
  topic: string
  critical: boolean
  channel: NotificationChannelName
  address: string | null
  subject: string
  body: string
  lines: number
  attempts: number
  unsubscribe_url: string | null
}

const fromRow = (row: AlertRow): OwnerAlert => ({
  id: row.id,
  agentId: row.agent_id,
  topic: row.topic,
  critical: row.critical,
  channel: row.channel,
  address: row.address ?? '',
  subject: row.subject,
  body: row.body,
  omittedLines: Math.max(0, row.lines - MAX_DIGEST_LINES),
  attempts: row.attempts,
  unsubscribeUrl: row.unsubscribe_url,
})
