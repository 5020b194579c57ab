import { IdempotencyKeyAnsweredElsewhereError } from '../actors/aggregate-command-types.ts'
import { CommandNotCommittedError } from '../actors/unanswered-commit-errors.ts'
import { ServiceError } from '../core/errors.ts'
import { ZERO_MICROS } from '../core/money.ts'
import { admitAndChargeFinishedCallCommand } from '../payments/commands/admit-and-charge-finished-call-command.ts'
import {
  listActorsToLoadForCall,
  addRefusalDetails,
  recordExplainedRefusal,
  toCallAdmissionRequest,
  type AdmittedCall,
} from './admitted-call.ts'
import type { ValidatedPricedCall } from './parse-and-price-call.ts'
import { toCallError, toUnknownChargeError } from './to-call-error.ts'
import type { CallDeps, CallReply } from './call-request-and-reply-types.ts'
import { runInstantTool, type ToolRunResult } from './run-tool.ts'
import { createCallRecord } from './settle-call.ts'
import { chargeableCost, undoFailedCallClaims } from './tool-context.ts'

/** Calls of instant tools: the tool runs first, then one command admits and charges the call. */

/**
 * Whether one command can admit and charge the call: an agent's credits pay it, and nothing but the
 * balance, the key, the task and the Backpack limits it.
 */
export const isSingleCommitCall = (plan: ValidatedPricedCall): boolean =>
  plan.tool.instant === true &&
  plan.tool.quota === undefined &&
  plan.allowance === null &&
  plan.freePerDay === null &&
  plan.price !== null &&
  plan.request.run === undefined &&
  plan.request.caller.agentId !== null &&
  (plan.price === ZERO_MICROS || plan.request.door.paymentHeader === null)

/**
 * Runs and charges an instant call. Returns null, without a charge, if it has to take the long way, which
 * holds its price first: its tool has failed, so the call is recorded as failed, or has staged what only
 * the long way writes, or a fleet could lend what is short. Throws the ServiceError of a rejection.
 */
export async function executeSingleCommitCall(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
): Promise<CallReply | null> {
  const outcome = await runUnlessFailing(parts, plan, callId)
  if (outcome === null) return null
  const { watches, tallies } = outcome.traces
  if (watches.length + tallies.length > 0) {
    await undoFailedCallClaims(parts, outcome.traces)
    return null
  }
  try {
    return await spend(parts, plan, callId, outcome)
  } catch (error) {
    if (isChargeUnknown(error)) throw toUnknownChargeError(error, callId)
    const isReplay = error instanceof IdempotencyKeyAnsweredElsewhereError
    // The commit may have landed before any other error: the call must not run again, nor its claims be undone.
    if (!isReplay && !(error instanceof ServiceError))
      throw toCallError(parts, 'instant call failed', error)
    await undoFailedCallClaims(parts, outcome.traces)
    if (isReplay) throw error
    if (isFleetMemberShort(error)) return null
    const { backpackId } = plan.request
    parts.refusals.noteError(backpackId, plan.tool.slug, error)
    recordExplainedRefusal(parts, plan, callId, error)
    throw addRefusalDetails(parts, plan, callId, error)
  }
}

/** Null if the tool fails. A database that does not answer is not asked a second time. */
async function runUnlessFailing(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
): Promise<ToolRunResult | null> {
  try {
    return await runInstantTool(parts, plan, callId)
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'unavailable')
      throw addRefusalDetails(parts, plan, callId, error)
    return null
  }
}

const isChargeUnknown = (error: unknown): error is ServiceError =>
  error instanceof ServiceError &&
  error.code === 'unavailable' &&
  !(error instanceof CommandNotCommittedError)

async function spend(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  outcome: ToolRunResult,
): Promise<CallReply> {
  const { price, request } = plan
  const { agentId } = request.caller
  if (price === null || agentId === null) throw new Error('an instant call has a price and a payer')
  const ticket = toInstantTicket(plan, callId, price)
  const { row, reply } = createCallRecord(parts, ticket, outcome)
  const { rows, events, shares } = outcome.traces
  const admission = toCallAdmissionRequest(plan, callId, price, null)
  const cost = chargeableCost(outcome.traces, price)
  const { promoTransferable } = parts
  const input = { admission, cost, row, rows, events, shares, promoTransferable }
  await parts.actors.ask(
    agentId,
    admitAndChargeFinishedCallCommand,
    input,
    listActorsToLoadForCall(plan),
  )
  return reply()
}

/** Only the long way borrows from a fleet. */
const isFleetMemberShort = ({ code, details }: ServiceError): boolean =>
  code === 'payment_required' && details['fleet_id'] !== undefined

/** The call as its commit admits it. It holds nothing before. */
const toInstantTicket = (
  plan: ValidatedPricedCall,
  callId: string,
  amount: AdmittedCall['amount'],
): AdmittedCall => ({
  callId,
  plan,
  amount,
  slot: false,
  allowed: false,
  durable: false,
  rail: amount === ZERO_MICROS ? 'free' : 'credits',
  paid: null,
  at: 0,
})
