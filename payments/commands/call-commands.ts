import { ServiceError } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/domain-events.ts'
import { totalFleetLoans } from '../../domain/fleet-loans.ts'
import { addMicros, ZERO, type Micros } from '../../core/money.ts'
import type {
  AggregateCommand,
  InMemoryHold,
  CommandContext,
} from '../../actors/aggregate-command-types.ts'
import { requireTaskId } from '../../actors/commands/tasks-commands.ts'
import {
  checkDailyQuota,
  settleDailyQuota,
  countStoredReplyBytesToday,
  reserveDailyQuota,
} from '../../actors/commands/daily-quota.ts'
import { consumeLifetimeFreeCall } from '../../actors/commands/entitlements-commands.ts'
import type { UnstoredResponseReason } from '../../domain/unstored-response-reasons.ts'
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
  agentPromoAccount,
  toNonZeroTransfers,
  creditsTaken,
} from '../ledger-accounts.ts'
import type { CallAdmissionRequest, CreditsHeldByOtherCalls } from '../call-admission-request.ts'
import {
  toApiKeySpendCaps,
  toKeyReservedSpend,
  sumCreditsHeldByOtherCalls,
} from '../limits/credits-held-by-other-calls.ts'
import { explainSpendLimitRejection } from '../limits/explain-spend-limit-rejection.ts'
import {
  chargeDurableCallHold,
  chargeInMemoryHold,
  releaseDurableHold,
  releaseInMemoryHold,
} from './call-charge.ts'
import {
  assertLoanReceived,
  requireCallHold,
  findCallHold,
  callHoldTimerId,
  emitToolCallEvent,
  recordUnknownCallOutcome,
  type CallHoldExpiryInput,
} from './call-holds.ts'

/** Commands of an agent that admit, quote, settle, fail and expire calls. */

export interface AdmitCallResult {
  readonly at: number
}

/** Admits a call and holds its price: in memory, or in the ledger with an expiry. */
export const admitCallCommand: AggregateCommand<CallAdmissionRequest, AdmitCallResult> = {
  name: 'call.admit',
  kind: 'agent',
  apply(ctx, asked) {
    const reserved = sumCreditsHeldByOtherCalls(ctx, asked)
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
      throw explainSpendLimitRejection(error, ctx, asked, reserved)
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

/** Runs the same checks without a hold or an event; for quotes and dry runs. */
export const quoteCallCommand: AggregateCommand<
  CallAdmissionRequest,
  { refusal: ServiceError | null }
> = {
  name: 'call.quote',
  kind: 'agent',
  apply(ctx, asked) {
    const reserved = sumCreditsHeldByOtherCalls(ctx, asked)
    try {
      sendToEveryLimit(ctx, asked, reserved, 'ASK')
      checkDailyQuota(ctx, asked)
      return { refusal: null }
    } catch (error) {
      const explained = explainSpendLimitRejection(error, ctx, asked, reserved)
      if (explained instanceof ServiceError) return { refusal: explained }
      throw explained
    }
  },
}

/** What the row of a call needs to know of its commit. */
export interface CommittedCallInfo {
  readonly balance: Micros
  readonly at: number
  readonly left?: number
  /** Counts the bytes of a free reply; returns why the reply is not stored, or null. */
  readonly store?: (bytes: number) => UnstoredResponseReason | null
}

/** The credits of a call as its hold recorded them; an in-memory hold takes them at settlement. */
export interface SettleCallInput {
  readonly callId: string
  readonly cost: Micros
  readonly key: CallAdmissionRequest['key']
  /** Credits a fleet's pool has lent to charge it. */
  readonly lent?: Micros
  /** Uses a lifetime free call; throws if none is left. */
  readonly allowance?: LifetimeFreeCalls
  /** `left`: lifetime free calls remaining after this one. */
  readonly row: (landed: CommittedCallInfo) => CallRow
  /** The daily quota; counted here unless a durable hold has counted it. */
  readonly quota?: DailyToolQuota | undefined
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
  readonly events: readonly DomainEvent[]
  /** Parts of the price that go to other agents. */
  readonly shares?: readonly PriceShare[]
  /** Whether shares may contain promotional credits (decision 152). */
  readonly promoTransferable: boolean
  /** Runs in the same commit as the charge. */
  readonly ended?: ((ctx: CommandContext, call: CallRow) => void) | undefined
}

/** Charges a finished call and writes everything the tool staged, in one commit. */
export const settleCallCommand: AggregateCommand<SettleCallInput, { balance: Micros }> = {
  name: 'call.settle',
  kind: 'agent',
  apply(ctx, { callId, cost, key, lent = ZERO, allowance, row, rows, events, ...asked }) {
    const { shares = [], promoTransferable, ended, quota } = asked
    const sharing = { shares, promoTransferable }
    assertLoanReceived(ctx, { callId, lent })
    const left = allowance === undefined ? 0 : consumeLifetimeFreeCall(ctx, allowance)
    const soft = ctx.inMemoryHolds.get(callId)
    const at =
      soft === undefined
        ? chargeDurableCallHold(ctx, callId, cost, sharing)
        : chargeInMemoryHold(ctx, soft, { cost, key, ...sharing })
    if (soft !== undefined && quota !== undefined) {
      reserveDailyQuota(ctx, { callId, tool: soft.tool, quota })
      settleDailyQuota(ctx, callId, 'KEEP')
    }
    for (const staged of rows) ctx.row(staged.table, staged.row)
    for (const event of events) ctx.event(event)
    const balance = freeBalance(ctx)
    const call = row({
      balance,
      at,
      left,
      store: (bytes) => countStoredReplyBytesToday(ctx, bytes),
    })
    ctx.call(call)
    emitToolCallEvent(ctx, call)
    ended?.(ctx, call)
    return { balance }
  },
  note: ({ callId, cost }) => ({ callId, cost }),
}

/** Releases the hold of a failed call and records the call. */
export const failCallCommand: AggregateCommand<
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

/** Releases a durable hold without recording the call: its outcome is unknown. */
export const releaseCallHoldCommand: AggregateCommand<{ callId: string }, void> = {
  name: 'call.forget',
  kind: 'agent',
  apply(ctx, { callId }) {
    if (findCallHold(ctx, callId) !== undefined) releaseDurableHold(ctx, callId)
  },
  note: ({ callId }) => ({ callId }),
}

/** Expires a durable hold or a loan whose node died or whose tool never returned. */
export const expireCallHoldCommand: AggregateCommand<CallHoldExpiryInput, void> = {
  name: 'hold.expire',
  kind: 'agent',
  apply(ctx, { callId, lent = false, intent, answered = false }) {
    const hold = findCallHold(ctx, callId)
    // The loan's timer was read before the call was admitted with the loan.
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

const toInMemoryHold = (ctx: CommandContext, asked: CallAdmissionRequest): InMemoryHold => ({
  callId: asked.callId,
  at: ctx.now,
  amount: asked.amount,
  tool: asked.tool,
  keyId: toApiKeySpendCaps(asked.key).keyId,
  taskId: asked.taskId,
  backpackId: asked.backpackId,
})

/** Sends the event to the Backpack, the task and the agent; each checks its limits. */
function sendToEveryLimit(
  ctx: CommandContext,
  asked: CallAdmissionRequest,
  reserved: CreditsHeldByOtherCalls,
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
    ...toApiKeySpendCaps(key),
    ...toKeyReservedSpend(reserved),
    at: ctx.now,
    taskId,
    backpackId,
    tool,
    idempotencyKey,
    payment,
  })
}

/** A durable hold with the same key means the first request still runs, perhaps on another node. */
function assertKeyNotInFlight(ctx: CommandContext, { idempotencyKey }: CallAdmissionRequest): void {
  if (idempotencyKey === null) return
  const holds = Object.values(ctx.snapshotOf('agent', ctx.aggregateId).context.holds)
  if (holds.some((hold) => hold.idempotencyKey === idempotencyKey)) {
    throw new ServiceError('idempotency_in_flight', { retry_after: 1 })
  }
}

function bookCallHold(
  ctx: CommandContext,
  { callId, intent }: CallAdmissionRequest,
  expiresAt: number,
): void {
  const agentId = ctx.aggregateId
  const hold = requireCallHold(ctx, callId)
  const { taskId, backpackId } = hold
  // Lent credits are already held.
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
  // A Backpack revoked meanwhile is not loaded, but its hold must be released.
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
