import { DAY } from '../core/clock.ts'
import { isUuid, newId } from '../core/ids.ts'
import { spelling, type ChannelName } from '../core/notices.ts'
import type { Tx } from './once.ts'
import { plainArray } from './pg-array.ts'
import type { Sql } from './plane.ts'

export type AlertState = 'pending' | 'sent' | 'failed' | 'not_sent'

/** A message to the owner of an agent, or of a Backpack. */
export interface NewAlert {
  /** What makes it the same message; told again, it is left out. */
  readonly key: string
  readonly agentId: string
  readonly topic: string
  readonly channel: ChannelName
  readonly address: string | null
  readonly subject: string
  readonly body: string
  readonly at: Date
  readonly dueAt?: Date
  /** Must be heard at once: counted apart from what else is told. */
  readonly critical?: boolean
  /** Why it is only recorded: nobody to send it to, or no way to. */
  readonly notSent?: string
}

export interface Alert {
  readonly id: string
  readonly agentId: string
  readonly topic: string
  readonly critical: boolean
  readonly channel: ChannelName
  readonly address: string
  readonly subject: string
  readonly body: string
  /** Lines beyond those the body holds. */
  readonly left: number
  readonly attempts: number
}

/** What a node takes up, alone until `until`. */
export interface AlertClaim {
  readonly channel: ChannelName
  readonly now: Date
  readonly until: Date
  readonly most: number
  /** Messages this node is busy with. */
  readonly except: readonly string[]
}

/** How many messages a day there may be to one address. */
export interface AlertBounds {
  /** Caused by one agent; critical ones and others apart. */
  readonly own: number
  /** Caused by anybody; critical ones are not among them. */
  readonly all: number
}

/** The last thing that was to be told, for whoever asks whether telling works. */
export interface LastAlert {
  readonly topic: string
  readonly channel: ChannelName
  readonly state: AlertState
  readonly reason: string | null
  readonly at: Date
}

/** Whom to tell about an agent, and what of it. */
export interface Owner {
  readonly agentId: string
  readonly name: string
  /** Spelt in one way, as the chat too: what one address may get is counted by it. */
  readonly email: string | null
  readonly telegram: string | null
  /** Where deposits go now. */
  readonly wallet: string | null
}

const DIGEST_LINES = 50
/** The topic of what the pagers of Backpacks tell. */
export const PAGER = 'pager'

/** What people are told. The rows are the truth: sent by one node at a time, each until it is settled. */
export function alertStore(sql: Sql) {
  /** The owners of agents; an agent that does not exist has none. */
  async function ownersOf(
    agentIds: readonly string[],
    db: Sql | Tx = sql,
  ): Promise<Map<string, Owner>> {
    const rows = await db<OwnerRow[]>`
      select a.agent_id, a.name, a.owner_email, a.owner_telegram,
             (select address from wallets w where w.agent_id = a.agent_id and w.status = 'active'
               order by created_at desc limit 1) as wallet
        from agents a where a.agent_id = any(${plainArray(agentIds.filter(isUuid))}::uuid[])`
    return new Map(rows.map((row) => [row.agent_id, ownerFrom(row)]))
  }

  return {
    ownersOf,

    /** Adds a message once. Its id; null when it was there already. */
    add: insert,

    /**
     * A message as it goes out now: to the address that its owner has by now. Null where there is none
     * any more. What a Backpack's pager tells goes where it was meant to go.
     */
    async toOwner(alert: Alert): Promise<Alert | null> {
      const { id, agentId, channel, topic, attempts } = alert
      if (topic === PAGER) return alert
      const owner = (await ownersOf([agentId])).get(agentId)
      const address = (channel === 'email' ? owner?.email : owner?.telegram) ?? null
      if (address === null) return null
      if (address === alert.address) return alert
      await sql`update alerts set address = ${address}
        where id = ${id} and state = 'pending' and attempts = ${attempts}`
      return { ...alert, address }
    },

    /** Adds a line to the digest of that key, which goes out when it is due. */
    async addLine(tx: Tx, alert: NewAlert & { readonly dueAt: Date }): Promise<void> {
      const { key, agentId, topic, channel, address, subject, body, at, dueAt } = alert
      await tx`
        insert into alerts as a (id, key, agent_id, topic, channel, address, subject, body, state,
                                 due_at, created_at)
        values (${newId(at.getTime())}, ${key}, ${agentId}, ${topic}, ${channel}, ${address},
                ${subject}, ${body}, 'pending', ${dueAt}, ${at})
        on conflict (key) do update set lines = a.lines + 1,
          body = case when a.lines < ${DIGEST_LINES} then a.body || E'\n' || excluded.body else a.body end`
    },

    /** Whether a threshold may be told now; if so it is marked as told. `told` false never stands in the way. */
    async mark(
      tx: Tx,
      mark: { agentId: string; level: string; channel: ChannelName; told: boolean; at: Date },
      hours: number,
    ): Promise<boolean> {
      const { agentId, level, channel, told, at } = mark
      const marked = await tx`
        insert into alert_marks as m (agent_id, level, channel, told, at)
        values (${agentId}, ${level}, ${channel}, ${told}, ${at})
        on conflict (agent_id, level, channel) do update set told = excluded.told, at = excluded.at
         where m.at <= excluded.at - make_interval(hours => ${hours}) or (excluded.told and not m.told)`
      return marked.count === 1
    },

    /** Messages that are due on a channel, the oldest first. */
    async claim({ channel, now, until, most, except }: AlertClaim): Promise<Alert[]> {
      const rows = await sql<AlertRow[]>`
        update alerts set lease_until = ${until} where id in (
          select id from alerts where state = 'pending' and channel = ${channel} and due_at <= ${now}
             and (lease_until is null or lease_until <= ${now}) and id <> all(${[...except]}::text[])
           order by due_at limit ${most} for update skip locked) returning *`
      return rows.map(fromRow)
    },

    /** What is still being sent stays with this node. */
    async renew(ids: readonly string[], until: Date): Promise<void> {
      await sql`update alerts set lease_until = ${until}
        where id = any(${[...ids]}::text[]) and state = 'pending'`
    },

    /** One message for this node alone; null when it is settled or another has it. */
    async claimOne(id: string, now: Date, until: Date): Promise<Alert | null> {
      const [row] = await sql<AlertRow[]>`
        update alerts set lease_until = ${until} where id = ${id} and state = 'pending'
           and (lease_until is null or lease_until <= ${now}) returning *`
      return row === undefined ? null : fromRow(row)
    },

    /**
     * Keeps what became of an attempt; with `dueAt` it is tried again then. A threshold that could not
     * be told does not count as told: the next fall tells it.
     */
    async settle(
      { id, attempts }: Pick<Alert, 'id' | 'attempts'>,
      done: { state: AlertState; reason: string | null; at: Date; dueAt?: Date },
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
          select m.agent_id, m.channel, m.at from settled s join alert_marks m
              on m.agent_id = s.agent_id and m.channel = s.channel
                 and s.topic = 'low_balance.' || m.level and m.at <= s.created_at
           where s.state = 'failed')
        update alert_marks m set told = false from unheard u
         where m.agent_id = u.agent_id and m.channel = u.channel and m.at = u.at`
    },

    /**
     * Puts a message back that found its address full; no attempt is counted. It says why, and is
     * due at `dueAt`.
     */
    async postpone(
      { id, attempts }: Pick<Alert, 'id' | 'attempts'>,
      reason: string,
      dueAt: Date,
    ): Promise<void> {
      await sql`update alerts set reason = ${reason}, lease_until = null, due_at = ${dueAt}
        where id = ${id} and state = 'pending' and attempts = ${attempts}`
    },

    /**
     * When the address of a message takes another one of its agent: null for now, else after what
     * of that agent waits for it already, as many a day as the bound is.
     */
    async turnOf(alert: Alert, { own, all }: AlertBounds, now: Date): Promise<Date | null> {
      const { id, agentId, channel, address, critical } = alert
      const [row] = await sql<{ own: Date | null; all: Date | null; waiting: Date | null }[]>`
        with sent as (
          select agent_id, critical, settled_at from alerts
           where state = 'sent' and channel = ${channel} and address = ${address}
             and settled_at > ${now}::timestamptz - interval '1 day')
        select (select settled_at from sent where agent_id = ${agentId} and critical = ${critical}
                 order by settled_at desc offset ${own - 1} limit 1) as own,
               (select settled_at from sent where not critical and not ${critical}
                 order by settled_at desc offset ${all - 1} limit 1) as all,
               (select max(due_at) from alerts
                 where state = 'pending' and agent_id = ${agentId} and channel = ${channel}
                   and address = ${address} and critical = ${critical} and due_at > ${now}
                   and id <> ${id}) as waiting`
      const full = [row?.own, row?.all].filter((at) => at instanceof Date)
      if (full.length === 0) return null
      const free = Math.max(...full.map((at) => at.getTime() + DAY))
      return new Date(Math.max(free, (row?.waiting?.getTime() ?? 0) + DAY / own))
    },

    /**
     * Adds messages that an agent asked for, one a channel, unless it asked `most` times since then.
     * Their ids in order, or when it may ask again.
     */
    async addLimited(
      alerts: readonly [NewAlert, ...NewAlert[]],
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
        for (const alert of alerts) ids.push((await insert(tx, alert)) ?? '')
        return { ids }
      })
    },

    /** The newest message about an agent. */
    async lastOf(agentId: string): Promise<LastAlert | null> {
      const [row] = await sql<LastAlert[]>`
        select topic, channel, state, reason, coalesce(settled_at, created_at) as at from alerts
         where agent_id = ${agentId} order by created_at desc, id desc limit 1`
      return row ?? null
    },

    async sweep(since: Date): Promise<void> {
      await sql`delete from alerts where state <> 'pending' and settled_at < ${since}`
    },
  }
}
export type AlertStore = ReturnType<typeof alertStore>

/** Its id; null when the same message was there already. */
async function insert(tx: Tx, alert: NewAlert): Promise<string | null> {
  const { key, agentId, topic, channel, address, subject, body, at } = alert
  const { dueAt = at, notSent = null, critical = false } = alert
  const state: AlertState = notSent === null ? 'pending' : 'not_sent'
  const [row] = await tx<{ id: string }[]>`
    insert into alerts (id, key, agent_id, topic, channel, address, subject, body, critical, state,
                        reason, due_at, created_at, settled_at)
    values (${newId(at.getTime())}, ${key}, ${agentId}, ${topic}, ${channel}, ${address},
            ${subject}, ${body}, ${critical}, ${state}, ${notSent}, ${dueAt}, ${at},
            ${notSent === null ? null : at})
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

const ownerFrom = (row: OwnerRow): Owner => ({
  agentId: row.agent_id,
  name: row.name,
  email: row.owner_email === null ? null : spelling('email', row.owner_email),
  telegram: row.owner_telegram === null ? null : spelling('telegram', row.owner_telegram),
  wallet: row.wallet,
})

interface AlertRow {
  id: string
  agent_id: string
  topic: string
  critical: boolean
  channel: ChannelName
  address: string | null
  subject: string
  body: string
  lines: number
  attempts: number
}

const fromRow = (row: AlertRow): Alert => ({
  id: row.id,
  agentId: row.agent_id,
  topic: row.topic,
  critical: row.critical,
  channel: row.channel,
  address: row.address ?? '',
  subject: row.subject,
  body: row.body,
  left: Math.max(0, row.lines - DIGEST_LINES),
  attempts: row.attempts,
})
