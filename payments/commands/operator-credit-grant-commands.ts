import { resumeFundedSchedules } from '../../actors/commands/schedule-aggregate-commands.ts'
import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import { addMicros, toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import {
  toOperatorCreditGrantRow,
  type OperatorCreditGrantRecord,
} from '../../persistence/payments/operator-credit-grant-store.ts'
import { PROMO_GRANTS_ACCOUNT, agentPromoAccount } from '../ledger-accounts.ts'

/** Promotional credits that the operator gives an agent; the commit sets `at`. */
export type OperatorCreditGrantInput = Omit<OperatorCreditGrantRecord, 'agentId' | 'at'>

/**
 * Credits a grant and records it with its note, in one commit. A grant id counts once: its row
 * rejects the commit of a second one (`isTaken(error, 'operator_grants')`).
 */
export const giveOperatorCreditGrantCommand: AggregateCommand<
  OperatorCreditGrantInput,
  { balance: Micros }
> = {
  name: 'grant.give',
  kind: 'agent',
  apply(ctx, { grantId, amount, note, grantedBy }) {
    const agentId = ctx.aggregateId
    const { context } = ctx.send('agent', agentId, {
      type: 'CREDIT',
      promo: amount,
      cash: ZERO_MICROS,
    })
    ctx.transfer({
      debit: PROMO_GRANTS_ACCOUNT,
      credit: agentPromoAccount(agentId),
      amount,
      kind: 'grant',
      callId: grantId,
      memo: note,
    })
    const at = new Date(ctx.now)
    ctx.row(
      'operator_grants',
      toOperatorCreditGrantRow({ grantId, agentId, amount, note, grantedBy, at }),
    )
    const data = { source: 'grant', amount_usdc: toUsdc(amount), grant_id: grantId, note }
    ctx.event({ type: 'topup', to: agentId, data })
    resumeFundedSchedules(ctx)
    return { balance: addMicros(context.promo, context.cash) }
  },
  note: ({ grantId, amount, grantedBy }) => ({ grantId, amount, grantedBy }),
}
