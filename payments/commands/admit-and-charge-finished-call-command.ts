import { ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { TaskPassView } from '../../domain/prepaid-task-passes.ts'
import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import type {
  CallAdmissionRequest,
  CreditsHeldByOtherCalls,
} from '../agent-call-admission-request-types.ts'
import { agentCashAccount, agentPromoAccount, computeFreeCreditsTaken } from '../ledger-accounts.ts'
import { sumCreditsHeldByOtherCalls } from '../limits/credits-held-by-other-calls.ts'
import { explainSpendLimitRejection } from '../limits/explain-spend-limit-rejection.ts'
import { referrerAfterFirstDeposit, bookCallPrice } from '../price-split.ts'
import { findTaskPassForNewCall } from '../task-pass-payment.ts'
import { chargeTaskPassSlot } from './call-charge.ts'
import {
  recordChargedCall,
  sendEventToEverySpendLimit,
  type SettleCallInput,
} from './call-commands.ts'

/** Admits and charges a call whose tool has run already, in one command and one commit. */

export interface AdmitAndChargeFinishedCallInput extends Omit<
  SettleCallInput,
  'callId' | 'key' | 'lent' | 'allowance' | 'quota' | 'ended'
> {
  readonly admission: CallAdmissionRequest
}

/**
 * Admits a call against every limit and charges it in the same step. Rejects as `admitCallCommand`
 * does; nothing of a rejected call is written. What other calls hold in memory stays reserved for them.
 */
export const admitAndChargeFinishedCallCommand: AggregateCommand<
  AdmitAndChargeFinishedCallInput,
  { balance: Micros }
> = {
  name: 'call.spend',
  kind: 'agent',
  apply(ctx, { admission, cost, row, rows, events, ...sharing }) {
    const reserved = sumCreditsHeldByOtherCalls(ctx, admission)
    const before = ctx.snapshotOf('agent', ctx.aggregateId).context
    const passId = findTaskPassForNewCall(ctx, admission)
    try {
      spendAtEveryLimit(ctx, { ...admission, passId }, reserved, cost)
    } catch (error) {
      throw explainSpendLimitRejection(error, ctx, admission, reserved)
    }
    const { callId } = admission
    let pass: TaskPassView | null = null
    if (cost > ZERO_MICROS && passId !== null) {
      const { shares = [], promoTransferable } = sharing
      pass = chargeTaskPassSlot(ctx, callId, passId, 'USE', { shares, promoTransferable })
    } else if (cost > ZERO_MICROS) bookSpentPrice(ctx, callId, before, cost, sharing)
    return recordChargedCall(ctx, { row, rows, events }, { at: ctx.now, left: 0, pass })
  },
  note: ({ admission: { callId, tool, taskId, backpackId }, cost }) => ({
    callId,
    tool,
    cost,
    taskId,
    backpackId,
  }),
}

/** A waived call has to fit the limits at its price, and counts as a call that costs nothing. */
function spendAtEveryLimit(
  ctx: CommandContext,
  admission: CallAdmissionRequest & { readonly passId: string | null },
  reserved: CreditsHeldByOtherCalls,
  cost: Micros,
): void {
  if (cost !== admission.amount) sendEventToEverySpendLimit(ctx, admission, reserved, 'ASK')
  sendEventToEverySpendLimit(ctx, { ...admission, amount: cost }, reserved, 'SPEND')
}

function bookSpentPrice(
  ctx: CommandContext,
  callId: string,
  before: { readonly promo: Micros; readonly cash: Micros },
  cost: Micros,
  sharing: Pick<SettleCallInput, 'shares' | 'promoTransferable'>,
): void {
  const agentId = ctx.aggregateId
  const after = ctx.snapshotOf('agent', agentId).context
  const { promo, cash } = computeFreeCreditsTaken(before, after)
  const payers = [
    { account: agentPromoAccount(agentId), amount: promo },
    { account: agentCashAccount(agentId), amount: cash },
  ]
  const { shares = [], promoTransferable } = sharing
  const referrer = referrerAfterFirstDeposit(after)
  bookCallPrice(ctx, { payers, cost, callId, referrer, shares, promoTransferable })
}
