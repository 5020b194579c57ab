import { unspentFleetLoans, totalFleetLoans, type FleetLoan } from '../../domain/fleet-loans.ts'
import { addMicros, minMicros, subtractMicros, ZERO, type Micros } from '../../core/money.ts'
import type { InMemoryHold, CommandContext } from '../../actors/aggregate-command-types.ts'
import { settleDailyQuota } from '../../actors/commands/daily-quota.ts'
import type { PriceShare } from '../../core/commit-rows.ts'
import {
  agentCashAccount,
  splitUnusedHold,
  paymentClearingAccount,
  agentPromoAccount,
  creditsTaken,
} from '../ledger-accounts.ts'
import type { CallAdmissionRequest } from '../call-admission-request.ts'
import {
  toApiKeySpendCaps,
  NO_CREDITS_HELD_BY_OTHER_CALLS,
} from '../limits/credits-held-by-other-calls.ts'
import { explainSpendLimitRejection } from '../limits/explain-spend-limit-rejection.ts'
import { activeReferrerOf, bookCallPrice } from '../price-split.ts'
import {
  returnHeldCredits,
  heldPriceSources,
  requireCallHold,
  findCallHold,
  callHoldLoans,
  repayFleetLoans,
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

/**
 * Charges a call held in memory; returns when it was admitted. Another node may have used up a limit
 * since: the rejection names it.
 */
export function chargeInMemoryHold(
  ctx: CommandContext,
  hold: InMemoryHold,
  due: CallCharge,
): number {
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
): number {
  ctx.inMemoryHolds.remove(hold.callId)
  const { tool, taskId, backpackId, at: heldAt } = hold
  if (backpackId !== null) {
    ctx.notifyPagerOf(backpackId)
    ctx.send('backpack', backpackId, { type: 'CHARGE', tool, amount: cost, heldAt, at: ctx.now })
  }
  if (taskId !== null) ctx.send('taskSession', taskId, { type: 'CHARGE', amount: cost })
  const agentId = ctx.aggregateId
  if (cost === ZERO) return heldAt
  const loans = callHoldLoans(ctx, hold.callId)
  const lent = totalFleetLoans(loans)
  const before = ctx.snapshotOf('agent', agentId).context
  const event = {
    type: 'CHARGE',
    callId: hold.callId,
    amount: cost,
    ...toApiKeySpendCaps(key),
    heldAt,
    at: ctx.now,
  } as const
  const after = ctx.send('agent', agentId, event).context
  const { promo, cash } = creditsTaken(before, after)
  const byLoan = minMicros(cost, addMicros(lent.promo, lent.cash))
  const payers = [
    ...heldPriceSources(agentId, byLoan, minMicros(lent.promo, byLoan)),
    { account: agentPromoAccount(agentId), amount: promo },
    { account: agentCashAccount(agentId), amount: cash },
  ]
  bookCallPrice(ctx, {
    payers,
    cost,
    callId: hold.callId,
    referrer: activeReferrerOf(after),
    ...sharing,
  })
  endCallLoans(ctx, hold.callId, loans, byLoan)
  return heldAt
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
  repayFleetLoans(ctx, callId, unspentFleetLoans(loans, used))
}

/** Charges the durable hold of a call; returns when the call was admitted. */
export function chargeDurableCallHold(
  ctx: CommandContext,
  callId: string,
  cost: Micros,
  sharing: PriceSharing,
): number {
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
  settleDailyQuota(ctx, callId, cost === ZERO && held > ZERO ? 'GIVE_BACK' : 'KEEP')
  const { payment } = hold
  const agentId = ctx.aggregateId
  const referrer = activeReferrerOf(ctx.snapshotOf('agent', agentId).context)
  const left = splitUnusedHold(hold, cost)
  const promo = subtractMicros(
    hold.promo,
    addMicros(left.own.promo, totalFleetLoans(left.loans).promo),
  )
  const payers =
    payment === null
      ? heldPriceSources(agentId, cost, promo)
      : [{ account: paymentClearingAccount(payment.chain), amount: cost }]
  bookCallPrice(ctx, { payers, cost, callId, referrer, ...sharing })
  if (payment === null) {
    returnHeldCredits(ctx, callId, left.own)
    repayFleetLoans(ctx, callId, left.loans)
  } else notifyPayerOfCallEnd(ctx, callId, payment, cost > ZERO ? 'DELIVERED' : 'RELEASED')
  return heldAt
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
  settleDailyQuota(ctx, callId, 'GIVE_BACK')
  ctx.cancelTimer(callHoldTimerId(callId))
  const left = splitUnusedHold(hold, ZERO)
  returnHeldCredits(ctx, callId, left.own)
  repayFleetLoans(ctx, callId, left.loans)
  if (hold.payment !== null) notifyPayerOfCallEnd(ctx, callId, hold.payment, 'RELEASED')
}

/** Drops a hold in memory, and a loan that was made for its charge. */
export function releaseInMemoryHold(ctx: CommandContext, { callId }: InMemoryHold): void {
  ctx.inMemoryHolds.remove(callId)
  if (findCallHold(ctx, callId) !== undefined) releaseDurableHold(ctx, callId)
}
