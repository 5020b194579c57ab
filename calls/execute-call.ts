import { IdempotentReplayError } from '../actors/command.ts'
import { ServiceError } from '../core/errors.ts'
import { newUuidV7 } from '../core/ids.ts'
import type { IdempotentResponse } from '../core/commit-rows.ts'
import type { ToolEvent } from '../tools/define-tool.ts'
import { admitCall, releaseAdmittedCall } from './call-admission.ts'
import { releaseToolClaims } from './tool-context.ts'
import { hasExternalEffect, type AdmittedCall } from './admitted-call.ts'
import type { CallDeps, CallReply, CallRequest } from './call-types.ts'
import { PaymentReplayError } from './paid-call-admission.ts'
import { createToolOutputBuffer } from './tool-output-buffer.ts'
import { planCall } from './call-plan.ts'
import { runTool, type ToolRunResult } from './run-tool.ts'
import { settleFailedCall, settleSuccessfulCall } from './settle-call.ts'

/** What happens on the way of a call, for whoever streams it. */
export interface CallObserver {
  /** Holds are taken durably: its caller is answered before the last commit. */
  readonly durable: boolean
  admitted(ticket: AdmittedCall): void
  progress(event: ToolEvent): void
}

export const NOOP_CALL_OBSERVER: CallObserver = { durable: false, admitted() {}, progress() {} }

/**
 * One new call from its plan to its answer. Rejects with a ServiceError, and nothing is charged then;
 * only `unavailable` may leave that open, and says so.
 */
export async function executeCall(
  parts: CallDeps,
  request: CallRequest,
  watcher: CallObserver,
): Promise<CallReply> {
  const callId = newUuidV7(parts.clock.now())
  const plan = await planCall(parts, request)
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
  const told = await findRacingReply(parts, ticket)
  if (told !== null) {
    await giveBack?.()
    return told
  }
  watcher.admitted(ticket)
  const started = parts.clock.mono()
  let settling = false
  let outcome: ToolRunResult | null = null
  try {
    watcher.progress({ type: 'progress', step: 'run' })
    const output = createToolOutputBuffer(watcher.progress)
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
      // Another call has used the last free one up: this one is paid for, or refused.
      await releaseAdmittedCall(parts, ticket)
      ticket = null
      ticket = await admitCall(parts, plan, callId, durable)
    }
  } catch (error) {
    const unknown = error instanceof ServiceError && error.code === 'unavailable'
    if (outcome !== null && !unknown) await releaseToolClaims(parts, outcome.traces)
    if (ticket === null) throw error
    if (error instanceof IdempotentReplayError) {
      await releaseHold(parts, ticket)
      return replayStoredReply(error.stored, request.idempotency?.hash ?? '')
    }
    if (unknown) throw toUnavailableError(parts, ticket, error, settling)
    throw await settleFailure(parts, ticket, error, Math.round(parts.clock.mono() - started))
  }
}

/**
 * A call that acts outside is admitted once more behind an earlier one with its key, when the timer of
 * that one has just ended it. Its hold stands now, so whatever was answered before it can be seen.
 */
async function findRacingReply(parts: CallDeps, ticket: AdmittedCall): Promise<CallReply | null> {
  const { tool, request } = ticket.plan
  const { idempotency, caller } = request
  if (idempotency === null || !hasExternalEffect(tool, request)) return null
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
 * The database went away. Nobody waits for it a second time, so no row is kept; a durable hold has
 * its timer. Once the commit was sent, nobody can say yet whether it landed.
 */
function toUnavailableError(
  parts: CallDeps,
  ticket: AdmittedCall,
  error: ServiceError,
  settling: boolean,
): ServiceError {
  // The timer of a call that acted outside answers its key.
  if (!hasExternalEffect(ticket.plan.tool, ticket.plan.request)) void releaseHold(parts, ticket)
  const known = settling
    ? { detail: 'Whether this call was charged is not known yet; its Idempotency-Key tells.' }
    : { refunded: true, cost_usdc: 0 }
  return new ServiceError(
    'unavailable',
    { ...error.details, call_id: ticket.callId, ...known },
    error,
  )
}

/** The error a failed call is answered with, once its holds are gone. */
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
    if (!unknown || second instanceof IdempotentReplayError) await releaseHold(parts, ticket)
    const settled = second instanceof ServiceError && second.code === 'call_settled'
    if (settled) await abandonPayment(parts, ticket)
    if (!settled && !(second instanceof IdempotentReplayError)) return second
    // The commit whose answer was lost may have landed: nothing is said of the money then.
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

/** A hold that is gone: its payment must not wait for a word that nobody will say. */
async function abandonPayment(
  { paying, log }: CallDeps,
  { plan, paid, callId }: AdmittedCall,
): Promise<void> {
  if (paid === null || plan.request.caller.agentId === null) return
  await paying.abandon(paid.ref, callId).catch((error: unknown) => log('payment not let go', error))
}

/** A stored answer, given again to the same request only. */
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
