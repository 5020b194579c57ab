import { micros, type Micros } from '../../core/money.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** What an agent's calls took from its accounts in a period. */
export interface AgentSpending {
  readonly spent: Micros
  /** Start of the figures: later than requested if there were very many transfers. */
  readonly from: Date
  /** Its latest calls by tool, most expensive first. */
  readonly tools: readonly { tool: string; calls: number; cost: Micros }[]
}

/** Limit of transfers, or calls, read for one answer. */
const MAX_TRANSFERS = 100_000
const MAX_CALLS = 10_000

/** Reads what agents spend on calls, from the ledger. */
export function createAgentSpendingStore(sql: Sql) {
  return {
    /** What left `accounts` for calls since then, by the commits of their owner. */
    async of(owner: string, accounts: readonly string[], since: Date): Promise<AgentSpending> {
      const [[ledger], tools] = await Promise.all([
        sql<{ spent: bigint; movements: bigint; oldest: Date | null }[]>`
          select coalesce(sum(amount_micros) filter (
                   where kind in ('charge', 'fee') and debit = any(${[...accounts]}::text[])), 0)::bigint as spent,
                 count(*) as movements, min(at) as oldest
            from (select kind, debit, amount_micros, at from transfers
                   where owner = ${owner} and at > ${since}
                   order by id desc limit ${MAX_TRANSFERS}) latest`,
        sql<{ tool: string; calls: bigint; cost: bigint }[]>`
          select tool, count(*) as calls, sum(cost_micros)::bigint as cost
            from (select tool, cost_micros from calls
                   where owner = ${owner} and tool is not null and at > ${since}
                   order by at desc limit ${MAX_CALLS}) latest
           group by tool order by cost desc, calls desc, tool limit 10`,
      ])
      const cut = ledger !== undefined && Number(ledger.movements) === MAX_TRANSFERS
      return {
        spent: micros(ledger?.spent ?? 0n),
        from: cut && ledger.oldest !== null ? ledger.oldest : since,
        tools: tools.map((row) => ({
          tool: row.tool,
          calls: Number(row.calls),
          cost: micros(row.cost),
        })),
      }
    },
  }
}
export type AgentSpendingStore = ReturnType<typeof createAgentSpendingStore>
