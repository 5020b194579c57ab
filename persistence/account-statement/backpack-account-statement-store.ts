import { asMicros, subtractMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import type { AccountStatementPeriod, AccountStatementPosition } from './account-statement-store.ts'

/** A call's part of a Backpack's spend, and the Backpack's total after it. */
export interface BackpackSpendLine {
  readonly id: string
  readonly tool: string | null
  readonly operation: string
  readonly rail: string
  readonly taskId: string | null
  readonly cost: Micros
  readonly spentAfter: Micros
  readonly at: Date
}

/** Reads the statement of one Backpack: its paid calls, last admitted first. */
export function createBackpackAccountStatementStore(sql: Sql) {
  return {
    /** Begins a read; its balance, stored as `cash`, is the Backpack's total spend. */
    async begin(
      agentId: string,
      backpackId: string,
      { to }: AccountStatementPeriod,
    ): Promise<AccountStatementPosition> {
      const later =
        to === undefined
          ? sql`0`
          : sql`(select coalesce(sum(cost_micros), 0) from calls
                 where backpack_id = ${backpackId} and owner = ${agentId} and at >= ${to})`
      const [row] = await sql<{ snapshot: string; spent: bigint }[]>`
        select pg_current_snapshot()::text as snapshot, (coalesce((
            select (a.state->'context'->'spentTotal'->>'$n')::bigint from actors a
             where a.aggregate_id = ${agentId} and a.kind = 'backpack' and a.id = ${backpackId}), 0)
          - ${later})::bigint as spent`
      const cash = asMicros(row?.spent ?? 0n)
      return {
        snapshot: row?.snapshot ?? '',
        before: null,
        balances: { promo: ZERO_MICROS, cash, held: ZERO_MICROS },
      }
    },

    /** The next calls of a read, at most `limit`. */
    async page(
      agentId: string,
      backpackId: string,
      { from, to }: AccountStatementPeriod,
      { snapshot, before, balances }: AccountStatementPosition,
      limit: number,
    ): Promise<{ lines: BackpackSpendLine[]; next: AccountStatementPosition | null }> {
      const rows = await sql<SpendRow[]>`
        select call_id, tool, operation, rail, task_id, cost_micros, at from calls
         where backpack_id = ${backpackId} and owner = ${agentId} and cost_micros > 0
           and (written is null or pg_visible_in_snapshot(written, ${snapshot}::text::pg_snapshot)
                or was_visible(xmin, ${snapshot}::text::pg_snapshot) or ${isRestoredTransactionSql(sql)})
           ${before === null ? sql`` : sql`and call_id < ${before}::uuid`}
           ${from === undefined ? sql`` : sql`and at >= ${from}`}
           ${to === undefined ? sql`` : sql`and at < ${to}`}
         order by call_id desc limit ${limit + 1}`
      let spent = balances.cash
      const lines = rows.slice(0, limit).map((row) => {
        const spentAfter = spent
        const cost = asMicros(row.cost_micros)
        spent = subtractMicros(spent, cost)
        return toSpendLine(row, cost, spentAfter)
      })
      const last = lines.at(-1)
      if (rows.length <= limit || last === undefined) return { lines, next: null }
      return { lines, next: { snapshot, before: last.id, balances: { ...balances, cash: spent } } }
    },
  }
}
export type BackpackAccountStatementStore = ReturnType<typeof createBackpackAccountStatementStore>

/** After a restore into another cluster, transaction ids may lie ahead of this cluster's. */
const isRestoredTransactionSql = (sql: Sql) =>
  sql`written >= pg_snapshot_xmax(pg_current_snapshot())`

interface SpendRow {
  call_id: string
  tool: string | null
  operation: string
  rail: string
  task_id: string | null
  cost_micros: bigint
  at: Date
}

const toSpendLine = (row: SpendRow, cost: Micros, spentAfter: Micros): BackpackSpendLine => ({
  id: row.call_id,
  tool: row.tool,
  operation: row.operation,
  rail: row.rail,
  taskId: row.task_id,
  cost,
  spentAfter,
  at: row.at,
})
