import { ServiceError } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/domain-events.ts'
import { unspentFleetLoans, totalFleetLoans, type FleetLoan } from '../../domain/fleet-loans.ts'
import { addMicros, minMicros, subtractMicros, ZERO, type Micros } from '../../core/money.ts'
import type { Command, InMemoryHold, CommandContext } from '../../actors/command.ts'
import { requireTaskId } from '../../actors/commands/tasks.ts'
import {
  checkDailyQuota,
  settleDailyQuota,
  countStoredAnswerBytes,
  reserveDailyQuota,
} from '../../actors/commands/daily-quota.ts'
import { consumeLifetimeAllowance } from '../../actors/commands/entitlements.ts'
import type { UnstoredResponseReason } from '../../domain/unstored-response.ts'
import type {
  LifetimeFreeCalls,
  CallRow,
  PriceShare,
  DailyToolQuota,
} from '../../core/commit-rows.ts'
import {
  agentCashAccount,
  agentHeldAccount,
  agentHeldPromoAccount,
  splitUnusedHold,
  paymentClearingAccount,
  agentPromoAccount,
  toNonZeroTransfers,
  creditsTaken,
} from '../ledger-accounts.ts'
import type { CallAdmission, ReservedAmounts } from '../call-admission.ts'
import {
  toKeyLimits,
  toKeyReservedSpend,
  NO_RESERVED_AMOUNTS,
  reservedByOtherCalls,
} from '../limits/reserved-amounts.ts'
import { explainRejection } from '../limits/explain-rejection.ts'
import { activeReferrerOf, bookCallPrice } from '../price-split.ts'
import {
  assertLoanReceived,
  returnHeldCredits,
  heldPriceSources,
  requireCallHold,
  findCallHold,
  callHoldLoans,
  repayFleetLoans,
  callHoldTimerId,
  emitToolCallEvent,
  notifyPayerOfCallEnd,
  recordUnknownCallOutcome,
  callHoldTotal,
  type CallHoldExpiryInput,
} from './call-holds.ts'

export interface AdmitCallResult {
  readonly at: number
}

/** Lets a call in and holds its price: in memory, or in the ledger with an expiry. */
export const admitCallCommand: Command<CallAdmission, AdmitCallResult> = {
  name: 'call.admit',
  kind: 'agent',
  apply(ctx, asked) {
    const reserved = reservedByOtherCalls(ctx, asked)
    try {
      if (asked.expiresAt === null) {
        sendToEveryLimit(ctx, asked, reserved, 'ASK')
        checkDailyQuota(ctx, asked)
        ctx.inMemoryHolds.add(toInMemoryHold(ctx, asked))
      } else {
        assertKeyNotInFlight(ctx, asked)
        assertLoanReceived(ctx, asked)
        sendToEveryLimit(ctx, asked, reserved, 'HOLD')
        bookCallHold(ctx, asked, asked.expiresAt)
        reserveDailyQuota(ctx, asked)
      }
    } catch (error) {
      throw explainRejection(error, ctx, asked, reserved)
    }
    return { at: ctx.now }
  },
  note: ({ callId, tool, amount, taskId, backpackId }) => ({
    callId,
    tool,
    amount,
    taskId,
    backpackId,
  }),
}

/** Asks the same questions without holding anything; a refusal tells nobody (quote, dry run). */
export const quoteCallCommand: Command<CallAdmission, { refusal: ServiceError | null }> = {
  name: 'call.quote',
  kind: 'agent',
  apply(ctx, asked) {
    const reserved = reservedByOtherCalls(ctx, asked)
    try {
      sendToEveryLimit(ctx, asked, reserved, 'ASK')
      checkDailyQuota(ctx, asked)
      return { refusal: null }
    } catch (error) {
      const explained = explainRejection(error, ctx, asked, reserved)
      if (explained instanceof ServiceError) return { refusal: explained }
      throw explained
    }
  },
}

/** What the commit of a call tells its row. */
export interface CommittedCallInfo {
  readonly balance: Micros
  readonly at: number
  readonly left?: number
  /** Counts an answer that cost nothing; says why it is not kept where it is not. */
  readonly store?: (bytes: number) => UnstoredResponseReason | null
}

/** The funds of a call as its hold recorded them; a soft hold takes them only when it is settled. */
export interface SettleCallInput {
  readonly callId: string
  readonly cost: Micros
  readonly key: CallAdmission['key']
  /** What a fleet's pool has lent to charge it. */
  readonly lent?: Micros
  /** It is one of the agent's free calls for life: refused when another has taken the last one. */
  readonly allowance?: LifetimeFreeCalls
  /** `left`: free calls for life after this one. */
  readonly row: (landed: CommittedCallInfo) => CallRow
  /** How often an agent may do so a day; counted here unless a durable hold has. */
  readonly quota?: DailyToolQuota | undefined
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
  readonly events: readonly DomainEvent[]
  /** Parts of the price that are other agents'. */
  readonly shares?: readonly PriceShare[]
  /** Whether promotional credits may reach other agents by them (decision 152). */
  readonly promoTransferable: boolean
  /** What else ends with the call, in its commit: it stands or falls with the charge. */
  readonly ended?: ((ctx: CommandContext, call: CallRow) => void) | undefined
}

/** Takes the price of a finished call, with everything the tool staged, in one commit. */
export const settleCallCommand: Command<SettleCallInput, { balance: Micros }> = {
  name: 'call.settle',
  kind: 'agent',
  apply(ctx, { callId, cost, key, lent = ZERO, allowance, row, rows, events, ...asked }) {
    const { shares = [], promoTransferable, ended, quota } = asked
    const sharing = { shares, promoTransferable }
    assertLoanReceived(ctx, { callId, lent })
    const left = allowance === undefined ? 0 : consumeLifetimeAllowance(ctx, allowance)
    const soft = ctx.inMemoryHolds.get(callId)
    const at =
      soft === undefined
        ? captureHold(ctx, callId, cost, sharing)
        : chargeInMemoryHold(ctx, soft, { cost, key, ...sharing })
    if (soft !== undefined && quota !== undefined) {
      reserveDailyQuota(ctx, { callId, tool: soft.tool, quota })
      settleDailyQuota(ctx, callId, 'KEEP')
    }
    for (const staged of rows) ctx.row(staged.table, staged.row)
    for (const event of events) ctx.event(event)
    const balance = freeBalance(ctx)
    const call = row({ balance, at, left, store: (bytes) => countStoredAnswerBytes(ctx, bytes) })
    ctx.call(call)
    emitToolCallEvent(ctx, call)
    ended?.(ctx, call)
    return { balance }
  },
  note: ({ callId, cost }) => ({ callId, cost }),
}

/** Lets the money of a failed call go, and keeps the call itself. */
export const failCallCommand: Command<
  Pick<SettleCallInput, 'callId' | 'row' | 'ended'>,
  { balance: Micros }
> = {
  name: 'call.fail',
  kind: 'agent',
  apply(ctx, { callId, row, ended }) {
    const soft = ctx.inMemoryHolds.get(callId)
    if (soft === undefined) releaseDurableHold(ctx, callId)
    else releaseInMemoryHold(ctx, soft)
    const balance = freeBalance(ctx)
    const call = row({ balance, at: soft?.at ?? ctx.now })
    ctx.call(call)
    emitToolCallEvent(ctx, call)
    ended?.(ctx, call)
    return { balance }
  },
  note: ({ callId }) => ({ callId }),
}

/** Gives a durable hold back without a record of the call: nothing can be said of it any more. */
export const releaseCallHoldCommand: Command<{ callId: string }, void> = {
  name: 'call.forget',
  kind: 'agent',
  apply(ctx, { callId }) {
    if (findCallHold(ctx, callId) !== undefined) releaseDurableHold(ctx, callId)
  },
  note: ({ callId }) => ({ callId }),
}

/** The timer of a durable hold or a loan: its node has died, or the tool never came back. */
export const expireCallHoldCommand: Command<CallHoldExpiryInput, void> = {
  name: 'hold.expire',
  kind: 'agent',
  apply(ctx, { callId, lent = false, intent, answered = false }) {
    const hold = findCallHold(ctx, callId)
    // The timer of the loan was read before the call was let in with it.
    if (lent && hold !== undefined && hold.tool !== null) return
    ctx.cancelTimer(callHoldTimerId(callId))
    if (hold === undefined) return
    releaseDurableHold(ctx, callId)
    if (intent !== undefined && !answered) recordUnknownCallOutcome(ctx, callId, hold, intent)
  },
  note: ({ callId }) => ({ callId }),
}

const freeBalance = (ctx: CommandContext): Micros => {
  const { promo, cash } = ctx.snapshotOf('agent', ctx.aggregateId).context
  return addMicros(promo, cash)
}

const toInMemoryHold = (ctx: CommandContext, asked: CallAdmission): InMemoryHold => ({
  callId: asked.callId,
  at: ctx.now,
  amount: asked.amount,
  tool: asked.tool,
  keyId: toKeyLimits(asked.key).keyId,
  taskId: asked.taskId,
  backpackId: asked.backpackId,
})

/** Asks, or holds at, every limit the call stands under. */
function sendToEveryLimit(
  ctx: CommandContext,
  asked: CallAdmission,
  reserved: ReservedAmounts,
  type: 'ASK' | 'HOLD',
): void {
  const { callId, tool, amount, key, taskId, backpackId, idempotencyKey, payment } = asked
  if (backpackId !== null) {
    if (!ctx.has('backpack', backpackId))
      throw new ServiceError('NOT_FOUND', { backpack_id: backpackId })
    ctx.notifyPagerOf(backpackId)
    ctx.send('backpack', backpackId, {
      type,
      callId,
      tool,
      amount,
      reservedDay: reserved.day,
      reservedMonth: reserved.month,
      at: ctx.now,
    })
  }
  if (taskId !== null) {
    requireTaskId(ctx, taskId, key?.backpackId)
    ctx.send('taskSession', taskId, { type, amount, reserved: reserved.task })
  }
  ctx.send('agent', ctx.aggregateId, {
    type,
    callId,
    amount,
    reserved: reserved.agent,
    ...toKeyLimits(key),
    ...toKeyReservedSpend(reserved),
    at: ctx.now,
    taskId,
    backpackId,
    tool,
    idempotencyKey,
    payment,
  })
}

/** A durable hold with the same key, perhaps of another node: the first request is still running. */
function assertKeyNotInFlight(ctx: CommandContext, { idempotencyKey }: CallAdmission): void {
  if (idempotencyKey === null) return
  const holds = Object.values(ctx.snapshotOf('agent', ctx.aggregateId).context.holds)
  if (holds.some((hold) => hold.idempotencyKey === idempotencyKey)) {
    throw new ServiceError('idempotency_in_flight', { retry_after: 1 })
  }
}

function bookCallHold(
  ctx: CommandContext,
  { callId, intent }: CallAdmission,
  expiresAt: number,
): void {
  const agentId = ctx.aggregateId
  const hold = requireCallHold(ctx, callId)
  const { taskId, backpackId } = hold
  // What was lent for it is held already.
  const own = creditsTaken(hold, totalFleetLoans(hold.loans))
  const parts = [
    {
      debit: agentPromoAccount(agentId),
      credit: agentHeldPromoAccount(agentId),
      amount: own.promo,
    },
    { debit: agentCashAccount(agentId), credit: agentHeldAccount(agentId), amount: own.cash },
  ]
  for (const transfer of toNonZeroTransfers(parts, 'hold', callId)) ctx.transfer(transfer)
  // A Backpack revoked meanwhile is at rest, and yet its hold must be released.
  const touch = [
    ...(taskId === null ? [] : [{ kind: 'taskSession', id: taskId }]),
    ...(backpackId === null ? [] : [{ kind: 'backpack', id: backpackId }]),
  ]
  const key = hold.idempotencyKey
  const keyed = intent !== undefined && { intent, ...(key !== null && { key }) }
  const input = { callId, touch, ...keyed }
  ctx.timer({
    id: callHoldTimerId(callId),
    dueAt: expiresAt,
    command: expireCallHoldCommand.name,
    input,
  })
}

/** Another node may have used a limit up since the call was let in: the refusal says which. */
function chargeInMemoryHold(ctx: CommandContext, hold: InMemoryHold, due: CallCharge): number {
  const { callId, tool, taskId, backpackId } = hold
  const { cost, key } = due
  try {
    return chargeCall(ctx, hold, due)
  } catch (error) {
    const asked = { callId, tool, amount: cost, key, taskId, backpackId }
    const rest = { idempotencyKey: null, expiresAt: null, payment: null }
    throw explainRejection(error, ctx, { ...asked, ...rest }, NO_RESERVED_AMOUNTS)
  }
}

type PriceSharing = Required<Pick<SettleCallInput, 'shares' | 'promoTransferable'>>
type CallCharge = Pick<SettleCallInput, 'cost' | 'key'> & PriceSharing

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
    ...toKeyLimits(key),
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

/** What pools have lent when the call was charged, for want of what another node had spent. */
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

function captureHold(
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
  // One that was waived counts nowhere.
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

function releaseDurableHold(ctx: CommandContext, callId: string): void {
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

function releaseInMemoryHold(ctx: CommandContext, { callId }: InMemoryHold): void {
  ctx.inMemoryHolds.remove(callId)
  if (findCallHold(ctx, callId) !== undefined) releaseDurableHold(ctx, callId)
}
