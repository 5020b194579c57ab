import { IdempotencyKeyAnsweredElsewhereError } from '../actors/aggregate-command-types.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { ZERO_MICROS } from '../core/money.ts'
import { newUuidV7 } from '../core/ids-and-api-keys.ts'
import type { IdempotentResponse } from '../core/aggregate-commit-row-types.ts'
import type { ToolStreamEvent } from '../tools/define-tool.ts'
import { admitCall, releaseAdmittedCall } from './call-admission.ts'
import { undoFailedCallClaims } from './tool-context.ts'
import { mustNotRerunUnderIdempotencyKey, type AdmittedCall } from './admitted-call.ts'
import type { CallDeps, CallReply, CallRequest } from './call-request-and-reply-types.ts'
import { PaymentReplayError } from './paid-call-admission.ts'
import { createOutputBufferUntilCharge } from './tool-output-held-until-charge-commits.ts'
import { executeSingleCommitCall, isSingleCommitCall } from './single-commit-call.ts'
import { toUnknownChargeError } from './to-call-error.ts'
import { parsePriceAndPreflightCall, type ValidatedPricedCall } from './parse-and-price-call.ts'
import { runTool, type ToolRunResult } from './run-tool.ts'
import { AnswerWithheldForPaymentError } from './deliver-keyless-paid-call.ts'
import { settleFailedCall, settleSuccessfulCall } from './settle-call.ts'
import { toFailedCallMoney } from './failures/money.ts'

/** Observes a call, for streaming. */
export interface CallObserver {
  /** Takes durable holds, because output is sent before the last commit. */
  readonly durable: boolean
  admitted(ticket: AdmittedCall): void
  progress(event: ToolStreamEvent): void
}

export const NOOP_CALL_OBSERVER: CallObserver = { durable: false, admitted() {}, progress() {} }

/**
 * Executes a new call from plan to reply. Rejects with a ServiceError and charges nothing; only
 * `unavailable` may leave the charge unknown, and says so.
 */
export async function executeToolCall(
  parts: CallDeps,
  request: CallRequest,
  watcher: CallObserver,
): Promise<CallReply> {
  const callId = newUuidV7(parts.clock.now())
  const plan = await parsePriceAndPreflightCall(parts, request)
  const counting = countFreeCall(parts, plan)
  if (counting !== undefined) await counting
  if (!watcher.durable && isSingleCommitCall(plan)) {
    const reply = await executeSingleCommitCall(parts, plan, callId)
    if (reply !== null) return reply
  }
  return executeHeldCall(parts, plan, callId, watcher)
}

/** A call without a price, a daily number or a lifetime number is bounded by what it keeps (decision 391). */
function countFreeCall({ keptBytes }: CallDeps, plan: ValidatedPricedCall) {
  const { agentId } = plan.request.caller
  const isBounded =
    plan.price !== ZERO_MICROS || plan.freePerDay !== null || plan.allowance !== null
  if (agentId === null || isBounded) return undefined
  return keptBytes.take(agentId, LIMITS.keptBytesPerFreeCall)
}

/** Executes a call that holds its price while its tool runs. */
async function executeHeldCall(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  watcher: CallObserver,
): Promise<CallReply> {
  const { request } = plan
  const { effect, slow = false } = plan.tool
  const durable = watcher.durable || effect === 'external' || slow
  const giveBack = await request.takeRateToken?.(plan.tool.slug)
  let ticket: AdmittedCall | null
  try {
    ticket = await admitCall(parts, plan, callId, durable)
  } catch (error) {
    await giveBack?.()
    if (error instanceof PaymentReplayError) return error.reply
    throw error
  }
  const racing = await findRacingReply(parts, ticket)
  if (racing !== null) {
    await giveBack?.()
    return racing
  }
  watcher.admitted(ticket)
  const started = parts.clock.mono()
  let settling = false
  let outcome: ToolRunResult | null = null
  try {
    watcher.progress({ type: 'progress', step: 'run' })
    const output = createOutputBufferUntilCharge(watcher.progress)
    outcome = await runTool(parts, ticket, output.emit)
    watcher.progress({ type: 'progress', step: 'settle', note: `${outcome.ms} ms` })
    settling = true
    for (;;) {
      try {
        const reply = await settleSuccessfulCall(parts, ticket, outcome)
        output.deliver()
        return reply
      } catch (error) {
        if (!isFreeCallLost(ticket, error)) throw error
      }
      // Another call used the last free one: admit this one again at its price.
      await releaseAdmittedCall(parts, ticket)
      ticket = null
      ticket = await admitCall(parts, plan, callId, durable)
    }
  } catch (error) {
    // The answer is stored and waits for its payment.
    if (error instanceof AnswerWithheldForPaymentError) throw addCall(error.reason, callId)
    const unknown = error instanceof ServiceError && error.code === 'unavailable'
    if (outcome !== null && !unknown) await undoFailedCallClaims(parts, outcome.traces)
    if (ticket === null) throw error
    if (error instanceof IdempotencyKeyAnsweredElsewhereError) {
      await releaseHold(parts, ticket)
      return replayStoredReply(error.stored, request.idempotency?.hash ?? '')
    }
    if (unknown) throw toUnavailableError(parts, ticket, error, settling)
    throw await settleFailure(parts, ticket, error, Math.round(parts.clock.mono() - started))
  }
}

const addCall = (error: ServiceError, callId: string): ServiceError => (
  Object.assign(error.details, { call_id: callId }),
  error
)

/**
 * A call with external effects may have been admitted after an earlier one with its key was ended
 * by its timer. The hold exists now, so an earlier answer is visible.
 */
async function findRacingReply(parts: CallDeps, ticket: AdmittedCall): Promise<CallReply | null> {
  const { tool, request } = ticket.plan
  const { idempotency, caller } = request
  if (idempotency === null || !mustNotRerunUnderIdempotencyKey(tool, request)) return null
  const owner = caller.agentId ?? caller.visitorId
  const stored = await parts.callLog.findAnswer(owner, idempotency.key)
  if (stored === null) return null
  await releaseHold(parts, ticket)
  return replayStoredReply(stored, idempotency.hash)
}

const isFreeCallLost = ({ slot, allowed }: AdmittedCall, error: unknown): boolean =>
  error instanceof ServiceError &&
  ((slot && error.code === 'free_tier_exhausted') || (allowed && error.code === 'allowance_used'))

/**
 * The database is unavailable. No row is written; a durable hold has its timer. After the commit
 * was sent, its outcome is unknown.
 */
function toUnavailableError(
  parts: CallDeps,
  ticket: AdmittedCall,
  error: ServiceError,
  settling: boolean,
): ServiceError {
  // The timer of a call with external effects stores the answer for its key.
  if (!mustNotRerunUnderIdempotencyKey(ticket.plan.tool, ticket.plan.request))
    void releaseHold(parts, ticket)
  if (settling) return toUnknownChargeError(error, ticket.callId)
  const known = { call_id: ticket.callId, ...toFailedCallMoney(parts, ticket) }
  return new ServiceError('unavailable', { ...error.details, ...known }, error)
}

/** Releases the holds of a failed call and returns its error. */
async function settleFailure(
  parts: CallDeps,
  ticket: AdmittedCall,
  error: unknown,
  ms: number,
): Promise<unknown> {
  try {
    return await settleFailedCall(parts, ticket, error, ms)
  } catch (second) {
    const unknown = error instanceof ServiceError && error.code === 'outcome_unknown'
    if (!unknown || second instanceof IdempotencyKeyAnsweredElsewhereError)
      await releaseHold(parts, ticket)
    const settled = second instanceof ServiceError && second.code === 'call_settled'
    if (settled) await abandonPayment(parts, ticket)
    if (!settled && !(second instanceof IdempotencyKeyAnsweredElsewhereError)) return second
    // The lost commit may have landed, so the error says nothing about the charge.
    if (error instanceof ServiceError) {
      delete error.details['refunded']
      delete error.details['cost_usdc']
    }
    return error
  }
}

const releaseHold = (parts: CallDeps, ticket: AdmittedCall): Promise<void> =>
  releaseAdmittedCall(parts, ticket).catch((error: unknown) =>
    parts.log('hold not given back', error),
  )

/** The hold is gone, so no event will end the payment: abandon it. */
async function abandonPayment(
  { paying, log }: CallDeps,
  { plan, paid, callId }: AdmittedCall,
): Promise<void> {
  if (paid === null || plan.request.caller.agentId === null) return
  await paying.abandon(paid.ref, callId).catch((error: unknown) => log('payment not let go', error))
}

/** Returns a stored response. Throws `idempotency_key_reused` for a different request. */
export function replayStoredReply(stored: IdempotentResponse, hash: string): CallReply {
  if (stored.requestHash !== hash) throw new ServiceError('idempotency_key_reused')
  const { status, body } = stored.response
  return {
    status,
    body: body as Record<string, unknown>,
    headers: {},
    replayed: true,
    callId: stored.callId,
  }
}
