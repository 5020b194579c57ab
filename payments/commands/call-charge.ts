import { unspentFleetLoans, sumFleetLoansOfCall, type FleetLoan } from '../../domain/fleet-loans.ts'
import {
  addMicros,
  smallerOfTwoMicros,
  subtractMicros,
  ZERO_MICROS,
  type Micros,
} from '../../core/money.ts'
import type { InMemoryHold, CommandContext } from '../../actors/aggregate-command-types.ts'
import { settleDailyToolCallQuota } from '../../actors/commands/daily-call-and-stored-reply-quotas.ts'
import type { TaskPassView } from '../../domain/prepaid-task-passes.ts'
import type { PriceShare } from '../../core/aggregate-commit-row-types.ts'
import {
  agentCashAccount,
  splitUnusedHold,
  paymentClearingAccount,
  agentPromoAccount,
  computeFreeCreditsTaken,
} from '../ledger-accounts.ts'
import { isAgentFrozen } from '../../actors/commands/agent-freeze-commands.ts'
import type { CallAdmissionRequest } from '../agent-call-admission-request-types.ts'
import {
  toApiKeySpendCaps,
  NO_CREDITS_HELD_BY_OTHER_CALLS,
} from '../limits/credits-held-by-other-calls.ts'
import { explainSpendLimitRejection } from '../limits/explain-spend-limit-rejection.ts'
import { referrerAfterFirstDeposit, bookCallPrice } from '../price-split.ts'
import {
  findTaskPassOfInMemoryHold,
  releaseTaskPassCallSlot,
  refundSlotPriceOfExpiredTaskPass,
  useTaskPassCallSlot,
} from '../task-pass-payment.ts'
import {
  returnHeldCredits,
  heldPromoAndCashDebitSources,
  requireCallHold,
  findCallHold,
  callHoldLoans,
  returnUnusedFleetLoans,
  callHoldTimerId,
  notifyPayerOfCallEnd,
  callHoldTotal,
} from './call-holds.ts'

/** Charges or releases the hold of a call, in memory or durable. */

/** The parts of a price that go to other agents. */
interface PriceSharing {
  readonly shares: readonly PriceShare[]
  /** Whether shares may contain promotional credits (decision 152). */
  readonly promoTransferable: boolean
}

/** The price of a call and the key it is charged to. */
interface CallCharge extends PriceSharing {
  readonly cost: Micros
  readonly key: CallAdmissionRequest['key']
}

/** A charged call: when it was admitted, and the pass that has paid it. */
export interface ChargedCall {
  readonly at: number
  readonly pass: TaskPassView | null
}

/**
 * Charges a call held in memory; returns when it was admitted. Another node may have used up a limit
 * since: the rejection names it.
 */
export function chargeInMemoryHold(
  ctx: CommandContext,
  hold: InMemoryHold,
  due: CallCharge,
): ChargedCall {
  const { callId, tool, taskId, backpackId } = hold
  const { cost, key } = due
  try {
    return chargeCall(ctx, hold, due)
  } catch (error) {
    const asked = { callId, tool, amount: cost, key, taskId, backpackId }
    const rest = { idempotencyKey: null, expiresAt: null, payment: null }
    throw explainSpendLimitRejection(
      error,
      ctx,
      { ...asked, ...rest },
      NO_CREDITS_HELD_BY_OTHER_CALLS,
    )
  }
}

function chargeCall(
  ctx: CommandContext,
  hold: InMemoryHold,
  { cost, key, ...sharing }: CallCharge,
): ChargedCall {
  ctx.inMemoryHolds.remove(hold.callId)
  const { tool, taskId, backpackId, at: heldAt } = hold
  if (backpackId !== null) {
    ctx.notifyPagerOf(backpackId)
    ctx.send('backpack', backpackId, { type: 'CHARGE', tool, amount: cost, heldAt, at: ctx.now })
  }
  if (taskId !== null) ctx.send('taskSession', taskId, { type: 'CHARGE', amount: cost })
  const agentId = ctx.aggregateId
  // A free call spends nothing; only a freeze since its admission refuses it.
  if (cost === ZERO_MICROS && !isAgentFrozen(ctx)) {
    if (hold.passId !== null) refundSlotPriceOfExpiredTaskPass(ctx, hold.passId, hold.callId)
    return { at: heldAt, pass: null }
  }
  const loans = callHoldLoans(ctx, hold.callId)
  // A pool has lent for it because no pass could pay.
  const passId =
    cost > ZERO_MICROS && loans.length === 0 ? findTaskPassOfInMemoryHold(ctx, hold) : null
  const lent = sumFleetLoansOfCall(loans)
  const before = ctx.snapshotOf('agent', agentId).context
  const event = {
    type: 'CHARGE',
    callId: hold.callId,
    amount: cost,
    passId,
    ...toApiKeySpendCaps(key),
    heldAt,
    at: ctx.now,
  } as const
  const after = ctx.send('agent', agentId, event).context
  if (cost === ZERO_MICROS) return { at: heldAt, pass: null }
  if (passId !== null) {
    const pass = chargeTaskPassSlot(ctx, hold.callId, passId, 'USE', sharing)
    return { at: heldAt, pass }
  }
  const { promo, cash } = computeFreeCreditsTaken(before, after)
  const byLoan = smallerOfTwoMicros(cost, addMicros(lent.promo, lent.cash))
  const payers = [
    ...heldPromoAndCashDebitSources(agentId, byLoan, smallerOfTwoMicros(lent.promo, byLoan)),
    { account: agentPromoAccount(agentId), amount: promo },
    { account: agentCashAccount(agentId), amount: cash },
  ]
  bookCallPrice(ctx, {
    payers,
    cost,
    callId: hold.callId,
    referrer: referrerAfterFirstDeposit(after),
    ...sharing,
  })
  endCallLoans(ctx, hold.callId, loans, byLoan)
  return { at: heldAt, pass: null }
}

/** Books the price of a slot. Shares are parts of it, not of the list price (decision 236). */
export function chargeTaskPassSlot(
  ctx: CommandContext,
  callId: string,
  passId: string,
  type: 'USE' | 'CAPTURE',
  sharing: PriceSharing,
): TaskPassView {
  const { price, payers, view } = useTaskPassCallSlot(ctx, passId, type)
  const referrer = referrerAfterFirstDeposit(ctx.snapshotOf('agent', ctx.aggregateId).context)
  bookCallPrice(ctx, { payers, cost: price, callId, referrer, ...sharing })
  return view
}

/** Ends loans made at the charge because another node had spent the credits. */
function endCallLoans(
  ctx: CommandContext,
  callId: string,
  loans: readonly FleetLoan[],
  used: Micros,
): void {
  if (loans.length === 0) return
  ctx.cancelTimer(callHoldTimerId(callId))
  returnUnusedFleetLoans(ctx, callId, unspentFleetLoans(loans, used))
}

/** Charges the durable hold of a call. */
export function chargeDurableCallHold(
  ctx: CommandContext,
  callId: string,
  cost: Micros,
  sharing: PriceSharing,
): ChargedCall {
  const hold = requireCallHold(ctx, callId)
  const held = callHoldTotal(hold)
  const { taskId, backpackId, at: heldAt } = hold
  if (backpackId !== null) {
    ctx.notifyPagerOf(backpackId)
    ctx.send('backpack', backpackId, { type: 'CAPTURE', held, amount: cost, heldAt, at: ctx.now })
  }
  if (taskId !== null) ctx.send('taskSession', taskId, { type: 'CAPTURE', held, amount: cost })
  ctx.send('agent', ctx.aggregateId, { type: 'CAPTURE', callId, amount: cost, at: ctx.now })
  ctx.cancelTimer(callHoldTimerId(callId))
  // A waived call does not count.
  settleDailyToolCallQuota(
    ctx,
    callId,
    cost === ZERO_MICROS && held > ZERO_MICROS ? 'GIVE_BACK' : 'KEEP',
  )
  const { payment, passId } = hold
  if (passId !== null) {
    if (cost > ZERO_MICROS)
      return { at: heldAt, pass: chargeTaskPassSlot(ctx, callId, passId, 'CAPTURE', sharing) }
    releaseTaskPassCallSlot(ctx, passId, callId)
    return { at: heldAt, pass: null }
  }
  const agentId = ctx.aggregateId
  const referrer = referrerAfterFirstDeposit(ctx.snapshotOf('agent', agentId).context)
  const left = splitUnusedHold(hold, cost)
  const promo = subtractMicros(
    hold.promo,
    addMicros(left.own.promo, sumFleetLoansOfCall(left.loans).promo),
  )
  const payers =
    payment === null
      ? heldPromoAndCashDebitSources(agentId, cost, promo)
      : [{ account: paymentClearingAccount(payment.chain), amount: cost }]
  bookCallPrice(ctx, { payers, cost, callId, referrer, ...sharing })
  if (payment === null) {
    returnHeldCredits(ctx, callId, left.own)
    returnUnusedFleetLoans(ctx, callId, left.loans)
  } else notifyPayerOfCallEnd(ctx, callId, payment, cost > ZERO_MICROS ? 'DELIVERED' : 'RELEASED')
  return { at: heldAt, pass: null }
}

/** Returns everything a durable hold reserves; throws `call_settled` if it has ended. */
export function releaseDurableHold(ctx: CommandContext, callId: string): void {
  const hold = requireCallHold(ctx, callId)
  const held = callHoldTotal(hold)
  const { taskId, backpackId, at: heldAt } = hold
  if (backpackId !== null) {
    ctx.send('backpack', backpackId, { type: 'RELEASE', held, heldAt, at: ctx.now })
  }
  if (taskId !== null) ctx.send('taskSession', taskId, { type: 'RELEASE', held })
  ctx.send('agent', ctx.aggregateId, { type: 'RELEASE', callId })
  settleDailyToolCallQuota(ctx, callId, 'GIVE_BACK')
  ctx.cancelTimer(callHoldTimerId(callId))
  const left = splitUnusedHold(hold, ZERO_MICROS)
  returnHeldCredits(ctx, callId, left.own)
  returnUnusedFleetLoans(ctx, callId, left.loans)
  if (hold.payment !== null) notifyPayerOfCallEnd(ctx, callId, hold.payment, 'RELEASED')
  if (hold.passId !== null) releaseTaskPassCallSlot(ctx, hold.passId, callId)
}

/** Drops a hold in memory, and a loan that was made for its charge. */
export function releaseInMemoryHold(ctx: CommandContext, { callId, passId }: InMemoryHold): void {
  ctx.inMemoryHolds.remove(callId)
  if (passId !== null) refundSlotPriceOfExpiredTaskPass(ctx, passId, callId)
  if (findCallHold(ctx, callId) !== undefined) releaseDurableHold(ctx, callId)
}
