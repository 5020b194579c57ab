import { AlreadyAnswered } from '../actors/command.ts'
import { ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import type { StoredAnswer } from '../core/rows.ts'
import type { ToolEvent } from '../tools/define.ts'
import { admit, forget } from './admit.ts'
import { undoClaims } from './context.ts'
import { actsOutside, type Ticket } from './ticket.ts'
import type { CallParts, CallReply, CallRequest } from './calls.ts'
import { AnsweredBefore } from './paid.ts'
import { heldOutput } from './held-output.ts'
import { planCall } from './plan.ts'
import { runTool, type Outcome } from './run.ts'
import { fail, settle } from './settle.ts'

/** What happens on the way of a call, for whoever streams it. */
export interface Watcher {
  /** Holds are taken durably: its caller is answered before the last commit. */
  readonly durable: boolean
  admitted(ticket: Ticket): void
  progress(event: ToolEvent): void
}

export const NOBODY: Watcher = { durable: false, admitted() {}, progress() {} }

/**
 * One new call from its plan to its answer. Rejects with a ServiceError, and nothing is charged then;
 * only `unavailable` may leave that open, and says so.
 */
export async function perform(
  parts: CallParts,
  request: CallRequest,
  watcher: Watcher,
): Promise<CallReply> {
  const callId = newId(parts.clock.now())
  const plan = await planCall(parts, request)
  const { effect, slow = false } = plan.tool
  const durable = watcher.durable || effect === 'external' || slow
  const giveBack = await request.pace?.(plan.tool.slug)
  let ticket: Ticket | null
  try {
    ticket = await admit(parts, plan, callId, durable)
  } catch (error) {
    await giveBack?.()
    if (error instanceof AnsweredBefore) return error.reply
    throw error
  }
  const told = await answeredMeanwhile(parts, ticket)
  if (told !== null) {
    await giveBack?.()
    return told
  }
  watcher.admitted(ticket)
  const started = parts.clock.mono()
  let settling = false
  let outcome: Outcome | null = null
  try {
    watcher.progress({ type: 'progress', step: 'run' })
    const output = heldOutput(watcher.progress)
    outcome = await runTool(parts, ticket, output.emit)
    watcher.progress({ type: 'progress', step: 'settle', note: `${outcome.ms} ms` })
    settling = true
    for (;;) {
      try {
        const reply = await settle(parts, ticket, outcome)
        output.deliver()
        return reply
      } catch (error) {
        if (!lostSlot(ticket, error)) throw error
      }
      // Another call has used the last free one up: this one is paid for, or refused.
      await forget(parts, ticket)
      ticket = null
      ticket = await admit(parts, plan, callId, durable)
    }
  } catch (error) {
    const unknown = error instanceof ServiceError && error.code === 'unavailable'
    if (outcome !== null && !unknown) await undoClaims(parts, outcome.traces)
    if (ticket === null) throw error
    if (error instanceof AlreadyAnswered) {
      await letGo(parts, ticket)
      return replay(error.stored, request.idempotency?.hash ?? '')
    }
    if (unknown) throw away(parts, ticket, error, settling)
    throw await failed(parts, ticket, error, Math.round(parts.clock.mono() - started))
  }
}

/**
 * A call that acts outside is admitted once more behind an earlier one with its key, when the timer of
 * that one has just ended it. Its hold stands now, so whatever was answered before it can be seen.
 */
async function answeredMeanwhile(parts: CallParts, ticket: Ticket): Promise<CallReply | null> {
  const { tool, request } = ticket.plan
  const { idempotency, caller } = request
  if (idempotency === null || !actsOutside(tool, request)) return null
  const owner = caller.agentId ?? caller.visitorId
  const stored = await parts.callLog.findAnswer(owner, idempotency.key)
  if (stored === null) return null
  await letGo(parts, ticket)
  return replay(stored, idempotency.hash)
}

const lostSlot = ({ slot, allowed }: Ticket, error: unknown): boolean =>
  error instanceof ServiceError &&
  ((slot && error.code === 'free_tier_exhausted') || (allowed && error.code === 'allowance_used'))

/**
 * The database went away. Nobody waits for it a second time, so no row is kept; a durable hold has
 * its timer. Once the commit was sent, nobody can say yet whether it landed.
 */
function away(
  parts: CallParts,
  ticket: Ticket,
  error: ServiceError,
  settling: boolean,
): ServiceError {
  // The timer of a call that acted outside answers its key.
  if (!actsOutside(ticket.plan.tool, ticket.plan.request)) void letGo(parts, ticket)
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
async function failed(
  parts: CallParts,
  ticket: Ticket,
  error: unknown,
  ms: number,
): Promise<unknown> {
  try {
    return await fail(parts, ticket, error, ms)
  } catch (second) {
    const unknown = error instanceof ServiceError && error.code === 'outcome_unknown'
    if (!unknown || second instanceof AlreadyAnswered) await letGo(parts, ticket)
    const settled = second instanceof ServiceError && second.code === 'call_settled'
    if (settled) await abandon(parts, ticket)
    if (!settled && !(second instanceof AlreadyAnswered)) return second
    // The commit whose answer was lost may have landed: nothing is said of the money then.
    if (error instanceof ServiceError) {
      delete error.details['refunded']
      delete error.details['cost_usdc']
    }
    return error
  }
}

const letGo = (parts: CallParts, ticket: Ticket): Promise<void> =>
  forget(parts, ticket).catch((error: unknown) => parts.log('hold not given back', error))

/** A hold that is gone: its payment must not wait for a word that nobody will say. */
async function abandon({ paying, log }: CallParts, { plan, paid, callId }: Ticket): Promise<void> {
  if (paid === null || plan.request.caller.agentId === null) return
  await paying.abandon(paid.ref, callId).catch((error: unknown) => log('payment not let go', error))
}

/** A stored answer, given again to the same request only. */
export function replay(stored: StoredAnswer, hash: string): CallReply {
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
