import type {
  LlmAttemptCost,
  LlmReservationResult,
  LlmSpendReservation,
} from '../../domain/llm-budget-reservation-and-cost-types.ts'
import type { Micros } from '../../core/money.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Limits on LLM spending per UTC day, over all nodes: in total and per spender. */
export interface LlmSpendLimits {
  readonly budget: Micros
  readonly share: Micros
}

/**
 * Reserves and records LLM spending per UTC day, over all nodes; never exceeds the budget or a
 * spender's share.
 */
export function createLlmSpendStore(sql: Sql, { budget, share }: LlmSpendLimits) {
  return {
    /** Reserves an amount of the day's budget and of each spender's share, or nothing. */
    async take({ day, spenders, amount }: LlmSpendReservation): Promise<LlmReservationResult> {
      const [row] = await sql<{ taken: LlmReservationResult }[]>`
        select reserve_llm_spend(${day}::date, ${[...spenders]}::text[], ${amount}::bigint,
          ${budget}::bigint, ${share}::bigint) as taken`
      if (row === undefined) throw new Error('reserve_llm_spend returned no row')
      return row.taken
    },

    /** Replaces a reservation by the actual cost and records it with its call. */
    async settle(
      { day, spenders, amount }: LlmSpendReservation,
      spent: LlmAttemptCost,
    ): Promise<void> {
      const change = spent.cost - amount
      if (change === 0n && spent.cost === 0n) return
      // The shares read the day's row first, so that rows are locked in the same order as by
      // `take`.
      await sql`
        with whole as (
          update llm_spend set spent_micros = greatest(0, spent_micros + ${change}::bigint)
           where day = ${day}::date returning day),
        shares as (
          update llm_caller_spend s set spent_micros = greatest(0, s.spent_micros + ${change}::bigint)
            from whole where s.day = whole.day and s.spender = any(${[...spenders]}::text[]))
        insert into call_costs (call_id, provider, cost_micros, at, model, outcome, estimated)
        select ${spent.callId}::uuid, ${spent.provider}, ${spent.cost}::bigint,
               ${new Date(spent.at)}::timestamptz, ${spent.model}, ${spent.outcome}, ${spent.estimated}
         where ${spent.cost}::bigint > 0`
    },
  }
}
