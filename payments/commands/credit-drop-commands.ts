import { HOUR } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import { CREDIT_DROP_AMOUNT } from '../../domain/pricing.ts'
import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import { toCreditDropRow } from '../../persistence/payments/credit-drop-store.ts'
import { PROMO_GRANTS_ACCOUNT, agentPromoAccount } from '../ledger-accounts.ts'

/** The public view of a radio drop. */
export interface CreditDropView {
  readonly code: string
  readonly slots: number
  readonly left: number
  readonly credit: Micros
  readonly open: boolean
  readonly expiresAt: number
}

/** Creates a drop; its aggregate id is its code. */
export const openCreditDropCommand: AggregateCommand<Record<string, never>, CreditDropView> = {
  name: 'drop.open',
  kind: 'drop',
  creates: true,
  apply(ctx) {
    const [code, slots, credit] = [ctx.aggregateId, LIMITS.dropSlots, CREDIT_DROP_AMOUNT]
    const expiresAt = ctx.now + LIMITS.dropHours * HOUR
    ctx.create('drop', code, { code, slots, credit, at: ctx.now, expiresAt })
    ctx.row('drops', toCreditDropRow({ code, openedAt: ctx.now, expiresAt }))
    return toCreditDropView(ctx)
  },
}

/** Takes a slot for an agent and puts the credits into its inbox, in one commit. */
export const redeemCreditDropCommand: AggregateCommand<{ agentId: string }, { credit: Micros }> = {
  name: 'drop.redeem',
  kind: 'drop',
  apply(ctx, { agentId }) {
    const code = ctx.aggregateId
    const { context } = ctx.send('drop', code, { type: 'REDEEM', agentId, at: ctx.now })
    const { credit } = context
    ctx.transfer({
      debit: PROMO_GRANTS_ACCOUNT,
      credit: agentPromoAccount(agentId),
      amount: credit,
      kind: 'drop',
      memo: code,
    })
    ctx.inbox({
      receiver: agentId,
      receiverKind: 'agent',
      id: `drop:${code}`,
      event: { type: 'CREDIT', promo: credit, cash: ZERO_MICROS },
    })
    ctx.event({
      type: 'topup',
      to: agentId,
      data: { source: 'drop', amount_usdc: toUsdc(credit), code },
    })
    return { credit }
  },
  note: ({ agentId }) => ({ agentId }),
}

export const getCreditDropCommand: AggregateCommand<Record<string, never>, CreditDropView> = {
  name: 'drop.get',
  kind: 'drop',
  apply: toCreditDropView,
}

function toCreditDropView(ctx: CommandContext): CreditDropView {
  const { value, context } = ctx.snapshotOf('drop', ctx.aggregateId)
  const { code, slots, credit, expiresAt, redeemers } = context
  const open = value === 'open' && ctx.now < expiresAt
  return { code, slots, left: slots - redeemers.length, credit, open, expiresAt }
}
