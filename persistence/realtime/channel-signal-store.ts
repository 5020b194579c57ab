import { DAY } from '../../core/clock.ts'
import { publicAgentIdsSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { createTableTail } from '../table-tail.ts'

/** The types of signals. */
export const SIGNAL_TYPES = [
  'price_alert',
  'opportunity',
  'warning',
  'insight',
  'ping',
  'broadcast',
  'result',
  'error',
] as const
export type SignalType = (typeof SIGNAL_TYPES)[number]

export interface AgentSignal {
  /** The cursor of every stream of signals. */
  readonly id: bigint
  readonly from: string
  readonly channel: string
  readonly type: SignalType
  readonly payload: Record<string, unknown>
  readonly at: Date
  readonly expiresAt: Date
}

/** A signal about to be published; the commit assigns its id. */
export interface AgentSignalDraft extends Omit<AgentSignal, 'id' | 'at' | 'expiresAt'> {
  readonly callId: string
  readonly ttlSeconds: number
}

export interface ActiveSignalChannel {
  readonly channel: string
  readonly signals: number
  readonly lastId: bigint
  readonly lastAt: Date
}

/** At least the life of an Idempotency-Key, and of a day's statistics. */
const MIN_RETENTION_MS = DAY + DAY / 24
const SIGNAL_COLUMNS = ['agent_id', 'channel', 'type', 'payload', 'at', 'expires_at'] as const
const MAX_CHANNELS = 1_000

/** Row of a new signal, as a command stages it with `ctx.row`. */
export function toSignalRow(signal: AgentSignalDraft, at: number): Record<string, unknown> {
  const expiresAt = at + signal.ttlSeconds * 1_000
  return {
    id: null,
    call_id: signal.callId,
    agent_id: signal.from,
    channel: signal.channel,
    type: signal.type,
    payload: signal.payload,
    at: new Date(at).toISOString(),
    expires_at: new Date(expiresAt).toISOString(),
    kept_until: new Date(Math.max(expiresAt, at + MIN_RETENTION_MS)).toISOString(),
  }
}

/** Reads published signals until they expire. Commits write them. */
export function createSignalStore(sql: Sql) {
  const columns = () => sql(['id', ...SIGNAL_COLUMNS])
  return {
    /** A reader of all signals published from now on. */
    async tail() {
      const tail = await createTableTail<SignalRow>(sql, {
        table: 'signals',
        columns: SIGNAL_COLUMNS,
      })
      return { ...tail, read: async () => (await tail.read()).map(fromRow) }
    },

    /** The id of a published signal. */
    async idOf(callId: string): Promise<bigint | null> {
      const [row] = await sql<{ id: bigint }[]>`select id from signals where call_id = ${callId}`
      return row?.id ?? null
    },

    /**
     * Unexpired signals, newest first; of every public channel if none is named. `isPublicAgentSql`: whether public
     * places name the sender.
     */
    async recent(channel: string | null, now: Date, limit: number, before: string | null) {
      const rows = await sql<(SignalRow & { public_agents: string[] })[]>`
        select ${columns()}, ${publicAgentIdsSql(sql, sql`signals.agent_id`)} as public_agents from signals
         where ${channel === null ? sql`channel not like 'agent:%'` : sql`channel = ${channel}`}
           and expires_at > ${now} and (${before}::bigint is null or id < ${before}::bigint)
         order by id desc limit ${limit}`
      return rows.map((row) => ({ ...fromRow(row), isPublic: row.public_agents.length > 0 }))
    },

    /** Public channels with signals since then, latest first. */
    async channelsSince(since: Date): Promise<ActiveSignalChannel[]> {
      const rows = await sql<{ channel: string; signals: bigint; last: bigint; last_at: Date }[]>`
        select channel, count(*) as signals, max(id) as last, max(at) as last_at from signals
         where at > ${since} and channel not like 'agent:%'
         group by channel order by max(id) desc limit ${MAX_CHANNELS}`
      return rows.map((row) => ({
        channel: row.channel,
        signals: Number(row.signals),
        lastId: row.last,
        lastAt: row.last_at,
      }))
    },

    /** Channels with more than `most` unexpired signals between two ids: too many to replay. */
    async crowded(
      channels: readonly string[],
      after: bigint,
      through: bigint,
      now: Date,
      most: number,
    ): Promise<string[]> {
      const rows = await sql<{ channel: string }[]>`
        select c as channel from unnest(${[...channels]}::text[]) c
         where (select count(*) from (select from signals s where s.channel = c
                  and s.id > ${after} and s.id <= ${through} and s.expires_at > ${now}
                  limit ${most + 1}) x) > ${most}`
      return rows.map(({ channel }) => channel)
    },

    /** Unexpired signals of some channels between two ids, in order. */
    async between(
      channels: readonly string[],
      after: bigint,
      through: bigint,
      now: Date,
      limit: number,
    ): Promise<AgentSignal[]> {
      const rows = await sql<SignalRow[]>`
        select ${columns()} from signals
         where channel = any(${[...channels]}::text[]) and id > ${after} and id <= ${through}
           and expires_at > ${now} order by id limit ${limit}`
      return rows.map(fromRow)
    },

    /** Deletes signals that can no longer be requested; returns their number. */
    async sweep(now: Date): Promise<number> {
      const { count } = await sql`delete from signals where kept_until <= ${now}`
      return count
    },
  }
}
export type SignalStore = ReturnType<typeof createSignalStore>

interface SignalRow {
  id: bigint
  agent_id: string
  channel: string
  type: SignalType
  payload: Record<string, unknown>
  at: Date
  expires_at: Date
}

const fromRow = (row: SignalRow): AgentSignal => ({
  id: row.id,
  from: row.agent_id,
  channel: row.channel,
  type: row.type,
  payload: row.payload,
  at: row.at,
  expiresAt: row.expires_at,
})
