import { DAILY_BONUS_LIMIT, OWNER_BONUS_LIMIT } from '../domain/pricing.ts'
import { toUnquotedArrayLiteral, toTextArrayLiteral } from './postgres/postgres-array-literal.ts'
import type { Sql } from './start-postgres-and-redis.ts'
import type { StoredActor, StoredAggregate } from './stored-aggregate.ts'

/** Reads aggregates, their inboxes and their journal; commits write them. */
export function createAggregateStore(sql: Sql) {
  return {
    /** Version and resident actors of each; a missing aggregate has version 0. */
    async load(ids: readonly string[]): Promise<Map<string, StoredAggregate>> {
      const rows = await sql<AggregateRow[]>`
        select g.id as aggregate_id, g.kind as aggregate_kind, g.version, a.kind, a.id,
               a.machine_version, a.state::text as state
          from aggregates g left join actors a on a.aggregate_id = g.id and not a.archived
         where g.id = any(${toTextArrayLiteral(ids)}::text[])`
      const found = new Map<string, StoredAggregate & { actors: StoredActor[] }>()
      for (const row of rows) {
        const seen = found.get(row.aggregate_id)
        const one = seen ?? {
          id: row.aggregate_id,
          kind: row.aggregate_kind,
          version: Number(row.version),
          actors: [],
        }
        if (seen === undefined) found.set(one.id, one)
        if (row.id !== null) one.actors.push(fromRow(row as ActorRow))
      }
      return found
    },

    /** Single actors of one aggregate, loaded or not. */
    async loadActors(
      id: string,
      wanted: readonly { kind: string; id: string }[],
    ): Promise<StoredActor[]> {
      const rows = await sql<ActorRow[]>`
        select kind, id, machine_version, state::text as state from actors
         where aggregate_id = ${id} and (kind, id) in (
           select * from unnest(${toTextArrayLiteral(wanted.map((one) => one.kind))}::text[],
                                ${toTextArrayLiteral(wanted.map((one) => one.id))}::text[]))`
      return rows.map(fromRow)
    },

    /** Which of these commands are in the journal above a version, that is, were committed. */
    async landed(id: string, above: number, commandIds: readonly string[]): Promise<Set<string>> {
      const rows = await sql<{ command_id: string }[]>`
        select command_id from journal
         where aggregate_id = ${id} and version > ${above}
           and command_id = any(${toUnquotedArrayLiteral(commandIds)}::uuid[])`
      return new Set(rows.map((row) => row.command_id))
    },

    /** Unabsorbed inbox rows of an aggregate, oldest first, at most `limit`. */
    async openInbox(id: string, limit: number): Promise<{ id: string; event: unknown }[]> {
      return sql<{ id: string; event: unknown }[]>`
        select id, with_bonus_left(event, receiver, ${OWNER_BONUS_LIMIT}, ${DAILY_BONUS_LIMIT}) as event
          from inbox where receiver = ${id} and absorbed_at is null
         order by at, id limit ${limit}`
    },

    /** Aggregates whose inbox rows have been open for a while without a request. */
    async neglected(limit: number): Promise<{ id: string; kind: string }[]> {
      return sql<{ id: string; kind: string }[]>`
        select distinct receiver as id, receiver_kind as kind from inbox
         where absorbed_at is null and at < now() - interval '30 seconds' limit ${limit}`
    },

    /** Due timers, oldest first, without the first `skip` of them and without some commands. */
    async dueTimers(
      now: number,
      limit: number,
      skip: number,
      without: readonly string[] = [],
    ): Promise<DueTimer[]> {
      return sql<DueTimer[]>`
        select aggregate_id as "aggregateId", aggregate_kind as "aggregateKind", id,
               due_at::text as "dueAt", command, input
          from timers where due_at <= to_timestamp(${now} / 1000.0::float8)
           and command <> all(${toTextArrayLiteral(without)}::text[])
         order by due_at, aggregate_id, id limit ${limit} offset ${skip}`
    },

    /** The instant of the first timer after `now` in milliseconds, or null. */
    async nextTimer(now: number): Promise<number | null> {
      const [row] = await sql<{ due: number | null }[]>`
        select extract(epoch from min(due_at))::float8 * 1000 as due from timers
         where due_at > to_timestamp(${now} / 1000.0::float8)`
      return row?.due ?? null
    },

    /** How many milliseconds the database's clock is ahead of `localNow()`. */
    async clockOffset(localNow: () => number): Promise<number> {
      const before = localNow()
      const [row] = await sql<{ at: number }[]>`
        select extract(epoch from clock_timestamp())::float8 * 1000 as at`
      const after = localNow()
      return Math.round((row?.at ?? after) - (before + after) / 2)
    },

    /** Creates monthly partitions for the next months; idempotent, on any node. */
    async ensurePartitions(): Promise<void> {
      await sql`select ensure_partitions(3)`
    },
  }
}
export type AggregateStore = ReturnType<typeof createAggregateStore>

export interface DueTimer {
  readonly aggregateId: string
  readonly aggregateKind: string
  readonly id: string
  /**
   * As the database formats it: together with the id it distinguishes this timer from a later one.
   */
  readonly dueAt: string
  readonly command: string
  readonly input: unknown
}

interface ActorRow {
  kind: string
  id: string
  machine_version: number
  state: string
}
interface AggregateRow {
  aggregate_id: string
  aggregate_kind: string
  version: bigint
  kind: string | null
  id: string | null
  machine_version: number | null
  state: string | null
}

const fromRow = (row: ActorRow): StoredActor => ({
  kind: row.kind,
  id: row.id,
  machineVersion: row.machine_version,
  state: row.state,
})
