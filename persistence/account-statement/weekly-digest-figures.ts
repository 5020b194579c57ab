import { asMicros, type Micros } from '../../core/money.ts'
import { totalCreditBalance } from './account-statement-movements.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { createAccountStatementStore } from './account-statement-store.ts'

/** What an agent spent, earned and had in a period, from the ledger and the call log. */
export interface AgentPeriodFigures {
  /** Free and held credits after the last movement of the period. */
  readonly balance: Micros
  /**
   * Prices of calls and purchases on every rail, highest first. A call that a task pass pays costs
   * nothing more: the pass stands among the purchases.
   */
  readonly spending: readonly { tool: string; calls: number; cost: Micros }[]
  /** Credits from others by ledger kind, highest first. */
  readonly earnings: readonly { kind: string; amount: Micros }[]
  /** Fuses that tripped, by Backpack and limit. */
  readonly fuses: readonly { backpackId: string; limit: string; times: number }[]
}

/** Movements to an agent that another one, or the station, pays for what it did. */
const EARNING_KINDS = ['share', 'royalty', 'sale', 'bounty', 'tip', 'payout', 'referral'] as const

/** Reads figures of a past period; `from` is inclusive, `to` exclusive. */
export function createAgentPeriodFiguresReader(sql: Sql) {
  const statements = createAccountStatementStore(sql)

  const spendingOf = async (agentId: string, from: Date, to: Date) => {
    const rows = await sql<{ tool: string; calls: bigint; cost: bigint }[]>`
      select coalesce(tool, operation) as tool, count(*) as calls,
             coalesce(sum(cost_micros) filter (where rail <> 'pass'), 0)::bigint as cost
        from calls
       where owner = ${agentId} and at >= ${from} and at < ${to}
         and (tool is not null or cost_micros > 0)
       group by 1 order by cost desc, calls desc, 1`
    return rows.map((row) => ({
      tool: row.tool,
      calls: Number(row.calls),
      cost: asMicros(row.cost),
    }))
  }

  /** Rows of its own commits by their owner, rows of others by the index of credits from others. */
  const earningsOf = async (agentId: string, from: Date, to: Date) => {
    const accounts = toTextArrayLiteral([`agent:${agentId}:promo`, `agent:${agentId}:cash`])
    const kinds = toTextArrayLiteral([...EARNING_KINDS])
    const rows = await sql<{ kind: string; amount: bigint }[]>`
      select kind, sum(amount_micros)::bigint as amount from (
        select kind, amount_micros from ledger
         where owner = ${agentId} and credit = any(${accounts}::text[])
           and kind = any(${kinds}::text[]) and at >= ${from} and at < ${to}
        union all
        select kind, amount_micros from ledger
         where credit = any(${accounts}::text[]) and credit like 'agent:%'
           and split_part(credit, ':', 2) <> owner
           and kind = any(${kinds}::text[]) and at >= ${from} and at < ${to}) earned
       group by kind order by amount desc, kind`
    return rows.map((row) => ({ kind: row.kind, amount: asMicros(row.amount) }))
  }

  const fusesOf = async (agentId: string, from: Date, to: Date) => {
    const rows = await sql<{ backpack_id: string; fuse: string; times: bigint }[]>`
      select backpack_id, coalesce(data->>'limit', '-') as fuse, count(*) as times from outbox
       where agent_id = ${agentId} and type = 'fuse.tripped' and backpack_id is not null
         and at >= ${from} and at < ${to}
       group by 1, 2 order by times desc, 1, 2`
    return rows.map((row) => ({
      backpackId: row.backpack_id,
      limit: row.fuse,
      times: Number(row.times),
    }))
  }

  return async (agentId: string, from: Date, to: Date): Promise<AgentPeriodFigures> => {
    const [{ balances }, spending, earnings, fuses] = await Promise.all([
      statements.begin(agentId, { to }),
      spendingOf(agentId, from, to),
      earningsOf(agentId, from, to),
      fusesOf(agentId, from, to),
    ])
    return { balance: totalCreditBalance(balances), spending, earnings, fuses }
  }
}
export type AgentPeriodFiguresReader = ReturnType<typeof createAgentPeriodFiguresReader>
