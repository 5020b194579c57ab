import { ServiceError } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/domain-events.ts'
import { sumFleetLoansOfCall } from '../../domain/fleet-loans.ts'
import { addMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { TaskPassView } from '../../domain/prepaid-task-passes.ts'
import type {
  AggregateCommand,
  InMemoryHold,
  CommandContext,
} from '../../actors/aggregate-command-types.ts'
import { requireTaskInScope } from '../../actors/commands/task-session-actor-commands.ts'
import {
  assertDailyToolCallQuotaLeft,
  settleDailyToolCallQuota,
  countStoredReplyAgainstDailyByteLimit,
  reserveDailyToolCallQuota,
} from '../../actors/commands/daily-call-and-stored-reply-quotas.ts'
import { consumeLifetimeFreeCall } from '../../actors/commands/lifetime-entitlement-commands.ts'
import { isAgentFrozen } from '../../actors/commands/agent-freeze-commands.ts'
import type { UnstoredResponseReason } from '../../domain/unstored-response-reasons.ts'
import type {
  LifetimeFreeCalls,
  CallRow,
  PriceShare,
  DailyToolQuota,
} from '../../core/aggregate-commit-row-types.ts'
import {
  agentCashAccount,
  agentHeldAccount,
  agentHeldPromoAccount,
  agentPromoAccount,
  toNonZeroAgentAccountTransfers,
  computeFreeCreditsTaken,
} from '../ledger-accounts.ts'
import type {
  CallAdmissionRequest,
  CreditsHeldByOtherCalls,
} from '../agent-call-admission-request-types.ts'
import {
  findTaskPassForNewCall,
  readOpenTaskPassesById,
  viewTaskPass,
} from '../task-pass-payment.ts'
import {
  toApiKeySpendCaps,
  toKeySpendReservedInMemory,
  sumCreditsHeldByOtherCalls,
} from '../limits/credits-held-by-other-calls.ts'
import { explainSpendLimitRejection } from '../limits/explain-spend-limit-rejection.ts'
import {
  chargeDurableCallHold,
  type ChargedCall,
  chargeInMemoryHold,
  releaseDurableHold,
  releaseInMemoryHold,
} from './call-charge.ts'
import {
  assertFleetLoanReceived,
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
    const passId = findTaskPassForNewCall(ctx, asked)
    try {
      if (asked.expiresAt === null) {
        sendEventToEverySpendLimit(ctx, { ...asked, passId }, reserved, 'ASK')
        assertDailyToolCallQuotaLeft(ctx, asked)
        ctx.inMemoryHolds.add(toInMemoryHold(ctx, asked, passId))
      } else {
        assertKeyNotInFlight(ctx, asked)
        assertFleetLoanReceived(ctx, asked)
        sendEventToEverySpendLimit(ctx, { ...asked, passId }, reserved, 'HOLD')
        if (passId !== null) ctx.send('taskPasses', ctx.aggregateId, { type: 'HOLD', passId })
        bookCallHold(ctx, asked, asked.expiresAt)
        reserveDailyToolCallQuota(ctx, asked)
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

export interface CallQuoteResult {
  readonly refusal: ServiceError | null
  /** The task pass that would pay. */
  readonly pass: TaskPassView | null
}

/** Runs the same checks without a hold or an event; for quotes and dry runs. */
export const quoteCallCommand: AggregateCommand<CallAdmissionRequest, CallQuoteResult> = {
  name: 'call.quote',
  kind: 'agent',
  apply(ctx, asked) {
    const reserved = sumCreditsHeldByOtherCalls(ctx, asked)
    const passId = findTaskPassForNewCall(ctx, asked)
    const paying = passId === null ? undefined : readOpenTaskPassesById(ctx)[passId]
    const pass = passId === null || paying === undefined ? null : viewTaskPass(ctx, passId, paying)
    try {
      sendEventToEverySpendLimit(ctx, { ...asked, passId }, reserved, 'ASK')
      assertDailyToolCallQuotaLeft(ctx, asked)
      return { refusal: null, pass }
    } catch (error) {
      const explained = explainSpendLimitRejection(error, ctx, asked, reserved)
      if (explained instanceof ServiceError) return { refusal: explained, pass }
      throw explained
    }
  },
}

/** What the row of a call needs to know of its commit. */
export interface CommittedCallInfo {
  readonly balance: Micros
  readonly at: number
  readonly left?: number
  /** The task pass that has paid, with what it still pays. */
  readonly pass?: TaskPassView | null
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
  apply(ctx, { callId, cost, key, lent = ZERO_MICROS, allowance, row, rows, events, ...asked }) {
    const { shares = [], promoTransferable, ended, quota } = asked
    const sharing = { shares, promoTransferable }
    assertFleetLoanReceived(ctx, { callId, lent })
    const left = allowance === undefined ? 0 : consumeLifetimeFreeCall(ctx, allowance)
    const soft = ctx.inMemoryHolds.get(callId)
    const charged =
      soft === undefined
        ? chargeDurableCallHold(ctx, callId, cost, sharing)
        : chargeInMemoryHold(ctx, soft, { cost, key, ...sharing })
    if (soft !== undefined && quota !== undefined) {
      reserveDailyToolCallQuota(ctx, { callId, tool: soft.tool, quota })
      settleDailyToolCallQuota(ctx, callId, 'KEEP')
    }
    return recordChargedCall(ctx, { row, rows, events, ended }, { ...charged, left })
  },
  note: ({ callId, cost }) => ({ callId, cost }),
}

/** Writes what the tool staged and the row of a charged call. Returns the balance after it. */
export function recordChargedCall(
  ctx: CommandContext,
  { row, rows, events, ended }: Pick<SettleCallInput, 'row' | 'rows' | 'events' | 'ended'>,
  { at, left, pass }: ChargedCall & { readonly left: number },
): { balance: Micros } {
  for (const staged of rows) ctx.row(staged.table, staged.row)
  for (const event of events) ctx.event(event)
  const balance = freeBalance(ctx)
  const store = (bytes: number) => countStoredReplyAgainstDailyByteLimit(ctx, bytes)
  const call = row({ balance, at, left, pass, store })
  ctx.call(call)
  emitToolCallEvent(ctx, call)
  ended?.(ctx, call)
  return { balance }
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

const toInMemoryHold = (
  ctx: CommandContext,
  asked: CallAdmissionRequest,
  passId: string | null,
): InMemoryHold => ({
  callId: asked.callId,
  at: ctx.now,
  amount: asked.amount,
  tool: asked.tool,
  keyId: toApiKeySpendCaps(asked.key).keyId,
  taskId: asked.taskId,
  backpackId: asked.backpackId,
  passId,
})

/**
 * Sends the event to the Backpack, the task and the agent; each checks its limits. A free call spends
 * nothing of the balance, so its `SPEND` ends before the agent. A frozen agent refuses before any limit.
 */
export function sendEventToEverySpendLimit(
  ctx: CommandContext,
  asked: CallAdmissionRequest & { readonly passId: string | null },
  reserved: CreditsHeldByOtherCalls,
  type: 'ASK' | 'HOLD' | 'SPEND',
): void {
  const { callId, tool, amount, taskId, backpackId } = asked
  if (isAgentFrozen(ctx)) sendToAgent(ctx, asked, reserved, type)
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
    requireTaskInScope(ctx, taskId, asked.key?.backpackId)
    ctx.send('taskSession', taskId, { type, amount, reserved: reserved.task })
  }
  if (type === 'SPEND' && amount === ZERO_MICROS) return
  sendToAgent(ctx, asked, reserved, type)
}

function sendToAgent(
  ctx: CommandContext,
  asked: CallAdmissionRequest & { readonly passId: string | null },
  reserved: CreditsHeldByOtherCalls,
  type: 'ASK' | 'HOLD' | 'SPEND',
): void {
  const { callId, tool, amount, key, taskId, backpackId, idempotencyKey, payment, passId } = asked
  ctx.send('agent', ctx.aggregateId, {
    type,
    callId,
    amount,
    reserved: reserved.agent,
    ...toApiKeySpendCaps(key),
    ...toKeySpendReservedInMemory(reserved),
    ...(asked.from === undefined ? {} : { from: asked.from }),
    at: ctx.now,
    taskId,
    backpackId,
    tool,
    idempotencyKey,
    payment,
    passId,
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
  const own = computeFreeCreditsTaken(hold, sumFleetLoansOfCall(hold.loans))
  const parts = [
    {
      debit: agentPromoAccount(agentId),
      credit: agentHeldPromoAccount(agentId),
      amount: own.promo,
    },
    { debit: agentCashAccount(agentId), credit: agentHeldAccount(agentId), amount: own.cash },
  ]
  for (const transfer of toNonZeroAgentAccountTransfers(parts, 'hold', callId))
    ctx.transfer(transfer)
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
