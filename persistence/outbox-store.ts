import { LIMITS } from '../core/limits.ts'
import { toTextArrayLiteral } from './postgres/postgres-array-literal.ts'
import type { Sql } from './start-postgres-and-redis.ts'
import { createTableTail } from './table-tail.ts'

/** Events that commits have published. */

export interface BackpackPagerFeedEvent {
  /** A decimal string: the cursor of every stream over the outbox. */
  readonly id: string
  readonly type: string
  readonly data: Record<string, unknown>
  readonly at: Date
}

/** An event with its recipient, as streams forward it. */
export interface AgentOutboxEvent {
  readonly id: bigint
  readonly agentId: string
  readonly backpackId: string | null
  readonly type: string
  readonly data: Record<string, unknown>
  readonly at: Date
}

const OUTBOX_COLUMNS = ['agent_id', 'backpack_id', 'type', 'data', 'at'] as const

/** Reads the outbox. */
export function createOutboxStore(sql: Sql) {
  return {
    /** A reader of all events published from now on. */
    async tail() {
      const tail = await createTableTail<OutboxRow>(sql, {
        table: 'outbox',
        columns: OUTBOX_COLUMNS,
      })
      return { ...tail, read: async () => (await tail.read()).map(fromRow) }
    },

    /** The events of an agent between two ids, in order. */
    async between(
      agentId: string,
      after: bigint,
      through: bigint,
      limit: number,
    ): Promise<AgentOutboxEvent[]> {
      const rows = await sql<OutboxRow[]>`
        select ${sql(['id', ...OUTBOX_COLUMNS])} from outbox
         where agent_id = ${agentId} and id > ${after} and id <= ${through}
         order by id limit ${limit}`
      return rows.map(fromRow)
    },

    /**
     * From now on commits store every event of the agent, until `eventDays` after the last call of
     * this. Resolves to an id: cursors below it are from before and have a gap.
     */
    async listen(agentId: string): Promise<bigint> {
      const [row] = await sql<{ lost: bigint }[]>`
        select listen_to_events(${agentId}, ${LIMITS.eventDays}) as lost`
      return row?.lost ?? 0n
    },

    /** The same for agents that listen already. */
    async keepListening(agentIds: readonly string[]): Promise<Map<string, bigint>> {
      const rows = await sql<{ agent_id: string; lost: bigint }[]>`
        select agent_id, listen_to_events(agent_id, ${LIMITS.eventDays}) as lost
          from (select unnest(${toTextArrayLiteral(agentIds)}::text[]) as agent_id order by 1) x`
      return new Map(rows.map((row) => [row.agent_id, row.lost]))
    },

    /** The id of the oldest stored event. */
    async oldest(): Promise<bigint | null> {
      const [row] = await sql<{ id: bigint }[]>`select id from outbox order by id limit 1`
      return row?.id ?? null
    },

    /** The pager events of a Backpack, newest first; `before` is an event id. */
    async notificationsOf(
      backpackId: string,
      limit: number,
      before: string | null,
    ): Promise<BackpackPagerFeedEvent[]> {
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
export type OutboxStore = ReturnType<typeof createOutboxStore>

interface OutboxRow {
  id: bigint
  agent_id: string
  backpack_id: string | null
  type: string
  data: Record<string, unknown>
  at: Date
}

const fromRow = (row: OutboxRow): AgentOutboxEvent => ({
  id: row.id,
  agentId: row.agent_id,
  backpackId: row.backpack_id,
  type: row.type,
  data: row.data,
  at: row.at,
})
