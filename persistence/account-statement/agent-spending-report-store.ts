import { asMicros, type Micros } from '../../core/money.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** What an agent's calls took from its accounts in a period. */
export interface AgentSpendingReport {
  readonly spent: Micros
  /** Start of the figures: later than requested if there were very many transfers. */
  readonly from: Date
  /** Its latest calls by tool, most expensive first. */
  readonly tools: readonly { tool: string; calls: number; cost: Micros }[]
}

/** What the calls of a tool cost on a day. */
interface DailyToolSpending {
  readonly day: string
  readonly tool: string
  readonly calls: number
  readonly cost: Micros
}

/** Limit of transfers, or calls, read for one answer. */
const MAX_TRANSFERS = 100_000
const MAX_CALLS = 10_000
const MAX_DAILY_CALLS = 50_000

/** Reads what agents spend on calls, from the ledger. */
export function createAgentSpendingReportStore(sql: Sql) {
  return {
    /** What calls cost by UTC day and tool, newest day first; of a Backpack where one is named. */
    async byDayAndTool(
      owner: string,
      backpackId: string | null,
      since: Date,
    ): Promise<{ rows: DailyToolSpending[]; complete: boolean }> {
      const rows = await sql<{ day: string; tool: string; calls: bigint; cost: bigint }[]>`
        select to_char(at at time zone 'UTC', 'YYYY-MM-DD') as day, coalesce(tool, operation) as tool,
               count(*) as calls, sum(cost_micros)::bigint as cost
          from (select tool, operation, cost_micros, at from calls
                 where owner = ${owner} and at >= ${since} and (tool is not null or cost_micros > 0)
                   and (${backpackId}::text is null or backpack_id = ${backpackId})
                 order by call_id desc limit ${MAX_DAILY_CALLS}) latest
         group by 1, 2 order by 1 desc, cost desc, calls desc, 2`
      const found = rows.map((row) => ({
        day: row.day,
        tool: row.tool,
        calls: Number(row.calls),
        cost: asMicros(row.cost),
      }))
      const read = found.reduce((sum, { calls }) => sum + calls, 0)
      return { rows: found, complete: read < MAX_DAILY_CALLS }
    },

    /** What left `accounts` for calls since then, by the commits of their owner. */
    async of(
      owner: string,
      accounts: readonly string[],
      since: Date,
    ): Promise<AgentSpendingReport> {
      const [[ledger], tools] = await Promise.all([
        sql<{ spent: bigint; movements: bigint; oldest: Date | null }[]>`
          select coalesce(sum(amount_micros) filter (
                   where kind = 'price' and source in ('free', 'held')
                      or kind in ('charge', 'fee') and debit = any(${[...accounts]}::text[])), 0)::bigint as spent,
                 count(*) as movements, min(at) as oldest
            from (select kind, source, debit, amount_micros, at from ledger
                   where owner = ${owner} and at > ${since}
                   order by id desc limit ${MAX_TRANSFERS}) latest`,
        sql<{ tool: string; calls: bigint; cost: bigint }[]>`
          select tool, count(*) as calls, sum(cost_micros)::bigint as cost
            from (select tool, cost_micros from calls
                   where owner = ${owner} and tool is not null and at > ${since}
                   order by call_id desc limit ${MAX_CALLS}) latest
           group by tool order by cost desc, calls desc, tool limit 10`,
      ])
      const cut = ledger !== undefined && Number(ledger.movements) === MAX_TRANSFERS
      return {
        spent: asMicros(ledger?.spent ?? 0n),
        from: cut && ledger.oldest !== null ? ledger.oldest : since,
        tools: tools.map((row) => ({
          tool: row.tool,
          calls: Number(row.calls),
          cost: asMicros(row.cost),
        })),
      }
    },
  }
}
export type AgentSpendingReportStore = ReturnType<typeof createAgentSpendingReportStore>
