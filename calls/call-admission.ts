import { getLifetimeFreeCallsLeftCommand } from '../actors/commands/lifetime-entitlement-commands.ts'
import { msUntilNextUtcDay } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { ZERO_MICROS, type Micros } from '../core/money.ts'
import type { TaskPassView } from '../domain/prepaid-task-passes.ts'
import {
  admitCallCommand,
  releaseCallHoldCommand,
  quoteCallCommand,
  type CallQuoteResult,
} from '../payments/commands/call-commands.ts'
import type { CallDeps } from './call-request-and-reply-types.ts'
import { canBorrowFromFleet, retryWithFleetLoan } from './fleet-loan-for-call.ts'
import { admitPaidCall } from './paid-call-admission.ts'
import {
  usedUpFreeCallDetails,
  createCallPaymentRequiredError,
  type ValidatedPricedCall,
} from './parse-and-price-call.ts'
import {
  releaseDailyFreeCall,
  countFreeCallsLeftToday,
  holdDailyFreeCall,
} from './visitor-daily-free-calls.ts'
import {
  toCallAdmissionRequest,
  addRefusalDetails,
  recordExplainedRefusal,
  listActorsToLoadForCall,
  type AdmittedCall,
} from './admitted-call.ts'

/**
 * Holds the cost of a call: a free call, else credits or a payment. A rejected call holds nothing.
 */
export async function admitCall(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  durable: boolean,
): Promise<AdmittedCall> {
  const slot = await holdDailyFreeCall(parts, plan, callId)
  const allowed = (await lifetimeCallsLeft(parts, plan)) > 0
  const amount = priceFor(plan, slot, allowed)
  try {
    if (amount === null) throw freeTierExhausted(parts, plan, callId)
    if (amount > ZERO_MICROS && plan.request.door.paymentHeader !== null)
      return await admitPaidCall(parts, plan, callId, amount)
    const entry = await placeHold(parts, plan, callId, amount, durable)
    const rail = amount === ZERO_MICROS ? 'free' : 'credits'
    return { callId, plan, amount, slot, allowed, rail, paid: null, ...entry }
  } catch (error) {
    if (slot) releaseDailyFreeCall(parts, plan, callId)
    parts.refusals.noteError(plan.request.backpackId, plan.tool.slug, error)
    recordExplainedRefusal(parts, plan, callId, error)
    throw addRefusalDetails(parts, plan, callId, error)
  }
}

function priceFor(plan: ValidatedPricedCall, slot: boolean, allowed: boolean): Micros | null {
  if (slot) return ZERO_MICROS
  return allowed && plan.allowance !== null ? plan.allowance.price : plan.price
}

/**
 * Lifetime free calls left. Only read here: the commit decides which of two concurrent calls gets
 * the last one, and the other is admitted again.
 */
async function lifetimeCallsLeft(
  parts: CallDeps,
  { allowance, request, tool }: ValidatedPricedCall,
) {
  const { agentId } = request.caller
  if (allowance === null || agentId === null) return 0
  return parts.actors.ask(agentId, getLifetimeFreeCallsLeftCommand, {
    name: tool.slug,
    most: allowance.calls,
  })
}

/** Releases the hold of a call that did not run, or that another node has answered. */
export async function releaseAdmittedCall(parts: CallDeps, ticket: AdmittedCall): Promise<void> {
  const { plan, callId } = ticket
  const { agentId } = plan.request.caller
  if (ticket.slot) releaseDailyFreeCall(parts, plan, callId)
  if (agentId === null) {
    if (ticket.paid !== null) await parts.paying.release(ticket.paid.ref, callId, null)
    return
  }
  parts.actors.releaseHold(agentId, callId)
  // Without the key: a stored answer under the key must not prevent the release.
  const { touch } = listActorsToLoadForCall(plan)
  if (ticket.durable) await parts.actors.ask(agentId, releaseCallHoldCommand, { callId }, { touch })
}

/**
 * Returns the free calls left and the error that would reject the call (`early` first). Holds
 * nothing.
 */
export async function previewCallAdmission(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  early: ServiceError | null,
): Promise<CallAdmissionPreview> {
  const left = plan.allowance === null ? await countFreeCallsLeftToday(parts, plan) : null
  const forLife = await lifetimeCallsLeft(parts, plan)
  const amount = priceFor(plan, left !== null && left > 0, forLife > 0)
  const outcome =
    early === null
      ? await quoteAdmission(parts, plan, callId, amount)
      : { refusal: early, pass: null }
  return {
    left: plan.allowance === null ? left : forLife,
    amount,
    refusal: outcome.refusal,
    pass: outcome.refusal === null ? outcome.pass : null,
  }
}
export interface CallAdmissionPreview {
  /** Null for tools without free calls. */
  readonly left: number | null
  /** Null when the call cannot be bought. */
  readonly amount: Micros | null
  readonly refusal: ServiceError | null
  /** The task pass that would pay. */
  readonly pass: TaskPassView | null
}

async function quoteAdmission(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  amount: Micros | null,
): Promise<CallQuoteResult> {
  const { agentId } = plan.request.caller
  const refused = (refusal: ServiceError | null) => ({ refusal, pass: null })
  if (amount === null) return refused(freeTierExhausted(parts, plan, callId))
  if (agentId === null)
    return refused(
      amount === ZERO_MICROS ? null : createCallPaymentRequiredError(parts, plan, callId),
    )
  const holdRequest = toCallAdmissionRequest(plan, callId, amount, null)
  const { refusal, pass } = await parts.actors.ask(
    agentId,
    quoteCallCommand,
    holdRequest,
    listActorsToLoadForCall(plan),
  )
  const drawing = { agentId, callId, amount, beside: true, from: holdRequest.from }
  if (refusal !== null && (await canBorrowFromFleet(parts, drawing, refusal))) return refused(null)
  return refusal === null
    ? { refusal, pass }
    : refused(addRefusalDetails(parts, plan, callId, refusal) as ServiceError)
}

async function placeHold(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  amount: Micros,
  durable: boolean,
): Promise<Pick<AdmittedCall, 'at' | 'durable'>> {
  const { agentId } = plan.request.caller
  if (agentId === null) {
    if (amount > ZERO_MICROS) throw createCallPaymentRequiredError(parts, plan, callId)
    return { at: Math.floor(parts.clock.now()), durable }
  }
  const expiresAt = Math.floor(parts.clock.now()) + plan.tool.timeoutMs + LIMITS.holdGraceMs
  const { from } = toCallAdmissionRequest(plan, callId, amount, null)
  const drawing = { agentId, callId, amount, beside: true, from }
  return retryWithFleetLoan(parts, drawing, async (lent) => {
    // Fleet loans are held in the ledger: every node sees them, and they return if this node
    // crashes.
    const kept = durable || lent > ZERO_MICROS
    const entry = toCallAdmissionRequest(plan, callId, amount, kept ? expiresAt : null)
    const holdRequest = { ...entry, lent }
    const { at } = await parts.actors.ask(
      agentId,
      admitCallCommand,
      holdRequest,
      listActorsToLoadForCall(plan),
    )
    return { at, durable: kept }
  })
}

const freeTierExhausted = (
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
): ServiceError =>
  new ServiceError('free_tier_exhausted', {
    ...usedUpFreeCallDetails(parts, plan).fields,
    call_id: callId,
    tool: plan.tool.slug,
    limit_source: 'free_tier',
    limit_calls: plan.freePerDay,
    detail: `Only ${plan.freePerDay} free calls of ${plan.tool.slug} a day for each address${siteNote(plan)}. They reset at midnight UTC.`,
    retry_after: Math.ceil(msUntilNextUtcDay(parts.clock.now()) / 1000),
  })

const siteNote = ({ freePerDay, request }: ValidatedPricedCall): string =>
  request.caller.siteId === null
    ? ''
    : `, and ${(freePerDay ?? 0) * LIMITS.ipv6SiteFactor} for each IPv6 /48`
