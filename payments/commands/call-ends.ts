import { isLent, NO_LOANS, totalLent, type PoolLoan } from '../../core/loans.ts'
import { add, subtract, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import type { CallRow } from '../../core/rows.ts'
import type { Turn } from '../../actors/command.ts'
import { ServiceError } from '../../core/errors.ts'
import type { SnapshotOf } from '../../actors/registry.ts'
import type { Admission, Intent, PaymentRef } from '../admission.ts'
import {
  cashOf,
  fleetOf,
  fleetPromoOf,
  heldOf,
  heldPromoOf,
  promoOf,
  shift,
  type Source,
} from '../ledger.ts'

/** The payment's own aggregate learns what became of the call, in the commit that decided it. */
export function tellPayer(
  turn: Turn,
  callId: string,
  { payer, settlement }: PaymentRef,
  type: 'DELIVERED' | 'RELEASED',
): void {
  const event = { type, settlement, callId, at: turn.now }
  turn.inbox({ receiver: payer, receiverKind: 'payer', id: `${type}:${callId}`, event })
}

/**
 * What fleets lent for a call and the call did not use goes back to the one that lent it, whichever fleet
 * the agent is in by now: it was held, and nobody else had it.
 */
export function returnLent(turn: Turn, callId: string, loans: readonly PoolLoan[]): void {
  for (const loan of loans) if (isLent(loan)) returnLoan(turn, callId, loan)
}

function returnLoan(turn: Turn, callId: string, { fleetId, promo, cash }: PoolLoan): void {
  const agentId = turn.aggregateId
  const parts = [
    { debit: heldPromoOf(agentId), credit: fleetPromoOf(fleetId), amount: promo },
    { debit: heldOf(agentId), credit: fleetOf(fleetId), amount: cash },
  ]
  for (const part of parts)
    if (part.amount > ZERO) turn.transfer({ ...part, kind: 'draw_back', callId })
  turn.inbox({
    receiver: fleetId,
    receiverKind: 'fleet',
    id: `draw_back:${turn.id()}`,
    event: { type: 'CREDIT', amount: cash, promo },
  })
}

/** Each finished call is told (decision 42); a pager hears of a failure by `error` alone. */
export function tellCall(turn: Turn, call: CallRow): void {
  const failed = call.status !== 'ok'
  const { backpackId } = call
  const to = turn.aggregateId
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
  turn.event({ type: 'tool_call', to, backpackId: failed ? null : backpackId, data })
  if (failed && backpackId !== null) turn.event({ type: 'error', to, backpackId, data })
}

/** The timer of a hold. */
export const timerOf = (callId: string) => `hold:${callId}`

/**
 * A loan is on its way through the inbox, which is absorbed before a refusal is given: without it the
 * call must not go on with money that has come free meanwhile, or the loan would come after its end.
 */
export function demandLoan(
  turn: Turn,
  { callId, lent = ZERO }: Pick<Admission, 'callId' | 'lent'>,
): void {
  const { promo, cash } = totalLent(loansOf(turn, callId))
  if (promo + cash >= lent) return
  const { fleetId } = turn.peek('agent', turn.aggregateId).context
  // It may have left meanwhile: then the pool of no fleet is short, but the loan has not come yet.
  throw new ServiceError('payment_required', {
    limit_source: 'fleet',
    ...(fleetId === null ? {} : { fleet_id: fleetId }),
  })
}

export type AgentHold = SnapshotOf<'agent'>['context']['holds'][string]

/** What is held of an agent for a call, or lent for it alone. */
export const heldFor = (turn: Turn, callId: string): AgentHold | undefined =>
  turn.peek('agent', turn.aggregateId).context.holds[callId]

/** What pools have lent for a call. */
export const loansOf = (turn: Turn, callId: string): readonly PoolLoan[] =>
  heldFor(turn, callId)?.loans ?? NO_LOANS

/** What the timer of a hold is given. */
export interface Expiring {
  readonly callId: string
  readonly lent?: true
  readonly intent?: Intent
  /** Its Idempotency-Key stands for another answer. */
  readonly answered?: true
}

/** It may have acted outside before its node died: its key must not let it act a second time. */
export function tellUnknown(turn: Turn, callId: string, hold: AgentHold, intent: Intent): void {
  const call: CallRow = {
    callId,
    agentId: turn.aggregateId,
    keyId: intent.keyId,
    operation: 'refuel',
    tool: hold.tool,
    rail: hold.payment === null ? 'credits' : 'x402',
    cost: ZERO,
    status: 'failed',
    errorCode: 'outcome_unknown',
    ms: Math.max(0, turn.now - hold.at),
    taskId: hold.taskId,
    backpackId: hold.backpackId,
    ghost: intent.ghost,
    idempotencyKey: hold.idempotencyKey,
    requestHash: intent.hash,
    response: intent.response,
    at: turn.now,
  }
  turn.call(call)
  tellCall(turn, call)
}

/** What was held of the agent's own, and is not spent. */
export function giveBack(
  turn: Turn,
  callId: string,
  { promo, cash }: { promo: Micros; cash: Micros },
): void {
  const agentId = turn.aggregateId
  const parts = [
    { debit: heldPromoOf(agentId), credit: promoOf(agentId), amount: promo },
    { debit: heldOf(agentId), credit: cashOf(agentId), amount: cash },
  ]
  for (const transfer of shift(parts, 'release', callId)) turn.transfer(transfer)
}

/** What a hold keeps for its call, from the agent or lent by a pool. */
export const worthOf = (hold: AgentHold): Micros => add(add(hold.promo, hold.cash), hold.external)

/** What of a price is held for its call: so much in all, so much of it promotional. */
export const heldPayers = (agentId: string, amount: Micros, promo: Micros): Source[] => [
  { account: heldPromoOf(agentId), amount: promo },
  { account: heldOf(agentId), amount: subtract(amount, promo) },
]

/** The hold of a call; rejects with `call_settled` where it has ended. */
export function holdOf(turn: Turn, callId: string): AgentHold {
  const hold = heldFor(turn, callId)
  if (hold === undefined) throw new ServiceError('call_settled', { call_id: callId })
  return hold
}
