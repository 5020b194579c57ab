import { createSettlementQueries } from '../../../persistence/payments/settlement-queries.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import {
  toSettlementId,
  type PaymentClaimInput,
} from '../../../payments/commands/payment-claim-commands.ts'

/** Balance of a ledger account in micros, from its transfers. */
export async function readLedgerBalance(sql: Sql, account: string): Promise<number> {
  const [row] = await sql<{ sum: bigint }[]>`select coalesce(sum(
    case when credit = ${account} then amount_micros else -amount_micros end), 0)::bigint as sum
    from transfers where credit = ${account} or debit = ${account}`
  return Number(row?.sum)
}

/** Money and delivery state of a payment, such as `settled/delivered`. */
export async function readSettlementState(
  sql: Sql,
  one: Pick<PaymentClaimInput, 'payment'>,
): Promise<string> {
  const found = await createSettlementQueries(sql).find(toSettlementId(one.payment))
  return `${found?.money}/${found?.delivery}`
}

export const readPayerMachineState = async (sql: Sql) => {
  const [row] = await sql<{ state: { value: string; context: Record<string, { $n: string }> } }[]>`
    select state from actors where kind = 'payer'`
  return { value: row?.state.value, losses: Number(row?.state.context['losses']?.$n) }
}
