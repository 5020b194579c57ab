import {
  isNonZeroLoan,
  NO_FLEET_LOANS,
  sumFleetLoansOfCall,
  type FleetLoan,
} from '../../domain/fleet-loans.ts'
import { addMicros, subtractMicros, toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { CallRow } from '../../core/aggregate-commit-row-types.ts'
import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import { ServiceError } from '../../core/errors.ts'
import type { ActorSnapshot } from '../../actors/machine-registry.ts'
import type {
  CallAdmissionRequest,
  OutcomeUnknownReply,
  ExternalCallPaymentRef,
} from '../agent-call-admission-request-types.ts'
import {
  agentCashAccount,
  fleetPoolAccount,
  fleetPoolPromoAccount,
  agentHeldAccount,
  agentHeldPromoAccount,
  agentPromoAccount,
  toNonZeroAgentAccountTransfers,
  type DebitSource,
} from '../ledger-accounts.ts'

/** Notifies the payment's aggregate of the outcome of the call, in the same commit. */
export function notifyPayerOfCallEnd(
  ctx: CommandContext,
  callId: string,
  { payer, settlement }: ExternalCallPaymentRef,
  type: 'DELIVERED' | 'RELEASED',
): void {
  const event = { type, settlement, callId, at: ctx.now }
  ctx.inbox({ receiver: payer, receiverKind: 'payer', id: `${type}:${callId}`, event })
}

/** Returns unused loans to the fleet that lent them, even if the agent has changed fleets. */
export function returnUnusedFleetLoans(
  ctx: CommandContext,
  callId: string,
  loans: readonly FleetLoan[],
): void {
  for (const loan of loans) if (isNonZeroLoan(loan)) repayFleetLoan(ctx, callId, loan)
}

function repayFleetLoan(
  ctx: CommandContext,
  callId: string,
  { fleetId, promo, cash }: FleetLoan,
): void {
  const agentId = ctx.aggregateId
  const parts = [
    {
      debit: agentHeldPromoAccount(agentId),
      credit: fleetPoolPromoAccount(fleetId),
      amount: promo,
    },
    { debit: agentHeldAccount(agentId), credit: fleetPoolAccount(fleetId), amount: cash },
  ]
  for (const part of parts)
    if (part.amount > ZERO_MICROS) ctx.transfer({ ...part, kind: 'draw_back', callId })
  ctx.inbox({
    receiver: fleetId,
    receiverKind: 'fleet',
    id: `draw_back:${ctx.newId()}`,
    event: { type: 'CREDIT', amount: cash, promo },
  })
}

/**
 * Emits an event for each finished call (decision 42); pagers hear of failures by `error` only. What
 * a Backpack shows is stored in any case.
 */
export function emitToolCallEvent(ctx: CommandContext, call: CallRow): void {
  const failed = call.status !== 'ok'
  const { backpackId } = call
  const to = ctx.aggregateId
  const data = {
    call_id: call.callId,
    backpack_id: backpackId,
    tool: call.tool ?? call.operation,
    rail: call.rail,
    cost_usdc: toUsdc(call.cost),
    ms: call.ms,
    status: call.status,
    ...(call.errorCode === null ? {} : { code: call.errorCode }),
  }
  const onlyIfHeard = !failed && backpackId === null
  ctx.event({ type: 'tool_call', to, backpackId: failed ? null : backpackId, data, onlyIfHeard })
  if (failed && backpackId !== null) ctx.event({ type: 'error', to, backpackId, data })
}

/** The timer of a hold. */
export const callHoldTimerId = (callId: string) => `hold:${callId}`

/**
 * Throws `payment_required` until the loan has arrived. Without it the call must not go on with
 * credits freed meanwhile, or the loan would arrive after its end. The inbox is absorbed first.
 */
export function assertFleetLoanReceived(
  ctx: CommandContext,
  { callId, lent = ZERO_MICROS }: Pick<CallAdmissionRequest, 'callId' | 'lent'>,
): void {
  const { promo, cash } = sumFleetLoansOfCall(callHoldLoans(ctx, callId))
  if (promo + cash >= lent) return
  const { fleetId } = ctx.snapshotOf('agent', ctx.aggregateId).context
  // The agent may have left its fleet: no pool is short, the loan has just not arrived.
  throw new ServiceError('payment_required', {
    limit_source: 'fleet',
    ...(fleetId === null ? {} : { fleet_id: fleetId }),
  })
}

export type CallHold = ActorSnapshot<'agent'>['context']['holds'][string]

/** The hold of a call, or the credits lent for it alone. */
export const findCallHold = (ctx: CommandContext, callId: string): CallHold | undefined =>
  ctx.snapshotOf('agent', ctx.aggregateId).context.holds[callId]

/** The loans that pools have made for a call. */
export const callHoldLoans = (ctx: CommandContext, callId: string): readonly FleetLoan[] =>
  findCallHold(ctx, callId)?.loans ?? NO_FLEET_LOANS

/** Input of a hold's timer. */
export interface CallHoldExpiryInput {
  readonly callId: string
  readonly lent?: true
  readonly intent?: OutcomeUnknownReply
  /** Its Idempotency-Key already has another reply. */
  readonly answered?: true
}

/** The call may have acted outside before its node died: its key must not act again. */
export function recordUnknownCallOutcome(
  ctx: CommandContext,
  callId: string,
  hold: CallHold,
  intent: OutcomeUnknownReply,
): void {
  const call: CallRow = {
    callId,
    agentId: ctx.aggregateId,
    keyId: intent.keyId,
    operation: 'refuel',
    tool: hold.tool,
    rail: hold.payment !== null ? 'x402' : hold.passId === null ? 'credits' : 'pass',
    cost: ZERO_MICROS,
    status: 'failed',
    errorCode: 'outcome_unknown',
    ms: Math.max(0, ctx.now - hold.at),
    taskId: hold.taskId,
    backpackId: hold.backpackId,
    ghost: intent.ghost,
    idempotencyKey: hold.idempotencyKey,
    requestHash: intent.hash,
    response: intent.response,
    at: ctx.now,
  }
  ctx.call(call)
  emitToolCallEvent(ctx, call)
}

/** Returns the unspent part of the agent's own held credits. */
export function returnHeldCredits(
  ctx: CommandContext,
  callId: string,
  { promo, cash }: { promo: Micros; cash: Micros },
): void {
  const agentId = ctx.aggregateId
  const parts = [
    { debit: agentHeldPromoAccount(agentId), credit: agentPromoAccount(agentId), amount: promo },
    { debit: agentHeldAccount(agentId), credit: agentCashAccount(agentId), amount: cash },
  ]
  for (const transfer of toNonZeroAgentAccountTransfers(parts, 'release', callId))
    ctx.transfer(transfer)
}

/** The total a hold reserves for its call, own and lent. */
export const callHoldTotal = (hold: CallHold): Micros =>
  addMicros(addMicros(hold.promo, hold.cash), hold.external)

/** Splits a held price into its promotional and cash sources. */
export const heldPromoAndCashDebitSources = (
  agentId: string,
  amount: Micros,
  promo: Micros,
): DebitSource[] => [
  { account: agentHeldPromoAccount(agentId), amount: promo },
  { account: agentHeldAccount(agentId), amount: subtractMicros(amount, promo) },
]

/** The hold of a call; throws `call_settled` if it has ended. */
export function requireCallHold(ctx: CommandContext, callId: string): CallHold {
  const hold = findCallHold(ctx, callId)
  if (hold === undefined) throw new ServiceError('call_settled', { call_id: callId })
  return hold
}
