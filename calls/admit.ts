import { allowanceLeft } from '../actors/commands/tally.ts'
import { untilNextDay } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { ZERO, type Micros } from '../core/money.ts'
import { callAdmit, callForget, callQuote } from '../payments/commands/call.ts'
import type { CallParts } from './calls.ts'
import { wouldLend, withDraws } from './draw.ts'
import { admitPaid } from './paid.ts'
import { freeTierOf, paymentRequired, type Plan } from './plan.ts'
import { giveSlotBack, slotsFree, takeSlot } from './slots.ts'
import { admissionOf, tell, touching, type Ticket } from './ticket.ts'

/** Holds what the call will cost: a free slot, else credits. Refusals hold nothing. */
export async function admit(
  parts: CallParts,
  plan: Plan,
  callId: string,
  durable: boolean,
): Promise<Ticket> {
  const slot = await takeSlot(parts, plan, callId)
  const allowed = (await allowancesLeft(parts, plan)) > 0
  const amount = priceFor(plan, slot, allowed)
  try {
    if (amount === null) throw exhausted(parts, plan, callId)
    if (amount > ZERO && parts.paying.brings(plan.request.door))
      return await admitPaid(parts, plan, callId, amount)
    const entry = await enter(parts, plan, callId, amount, durable)
    const rail = amount === ZERO ? 'free' : 'credits'
    return { callId, plan, amount, slot, allowed, rail, paid: null, ...entry }
  } catch (error) {
    if (slot) giveSlotBack(parts, plan, callId)
    parts.refusals.noteError(plan.request.backpackId, plan.tool.slug, error)
    throw tell(parts, plan, callId, error)
  }
}

function priceFor(plan: Plan, slot: boolean, allowed: boolean): Micros | null {
  if (slot) return ZERO
  return allowed && plan.allowance !== null ? plan.allowance.price : plan.price
}

/**
 * Of the agent's free calls for life. Only looked at here: whoever uses the last one up is decided in
 * the commit, and another that was let in beside it is asked again.
 */
async function allowancesLeft(parts: CallParts, { allowance, request, tool }: Plan) {
  const { agentId } = request.caller
  if (allowance === null || agentId === null) return 0
  return parts.actors.ask(agentId, allowanceLeft, { name: tool.slug, most: allowance.calls })
}

/** The hold of a call that was never run, or whose answer another node has given. */
export async function forget(parts: CallParts, ticket: Ticket): Promise<void> {
  const { plan, callId } = ticket
  const { agentId } = plan.request.caller
  if (ticket.slot) giveSlotBack(parts, plan, callId)
  if (agentId === null) {
    if (ticket.paid !== null) await parts.paying.release(ticket.paid.ref, callId, null)
    return
  }
  parts.actors.letGo(agentId, callId)
  // Without the key: that it has been answered meanwhile is no reason to keep the hold.
  const { touch } = touching(plan)
  if (ticket.durable) await parts.actors.ask(agentId, callForget, { callId }, { touch })
}

/** Which free calls are left, and what would refuse this one, or `early` does; nothing is held. */
export async function outlook(
  parts: CallParts,
  plan: Plan,
  callId: string,
  early: ServiceError | null,
): Promise<Outlook> {
  const left = plan.allowance === null ? await slotsFree(parts, plan) : null
  const forLife = await allowancesLeft(parts, plan)
  const amount = priceFor(plan, left !== null && left > 0, forLife > 0)
  return {
    left: plan.allowance === null ? left : forLife,
    amount,
    refusal: early ?? (await refusalOf(parts, plan, callId, amount)),
  }
}
export interface Outlook {
  /** Null for tools without free calls. */
  readonly left: number | null
  /** Null when there is nothing to buy. */
  readonly amount: Micros | null
  readonly refusal: ServiceError | null
}

async function refusalOf(
  parts: CallParts,
  plan: Plan,
  callId: string,
  amount: Micros | null,
): Promise<ServiceError | null> {
  const { agentId } = plan.request.caller
  if (amount === null) return exhausted(parts, plan, callId)
  if (agentId === null) return amount === ZERO ? null : paymentRequired(parts, plan, callId)
  const asked = admissionOf(plan, callId, amount, null)
  const { refusal } = await parts.actors.ask(agentId, callQuote, asked, touching(plan))
  const drawing = { agentId, callId, amount, beside: true }
  if (refusal !== null && (await wouldLend(parts, drawing, refusal))) return null
  return refusal === null ? null : (tell(parts, plan, callId, refusal) as ServiceError)
}

async function enter(
  parts: CallParts,
  plan: Plan,
  callId: string,
  amount: Micros,
  durable: boolean,
): Promise<Pick<Ticket, 'at' | 'durable'>> {
  const { agentId } = plan.request.caller
  if (agentId === null) {
    if (amount > ZERO) throw paymentRequired(parts, plan, callId)
    return { at: Math.floor(parts.clock.now()), durable }
  }
  const expiresAt = Math.floor(parts.clock.now()) + plan.tool.timeoutMs + LIMITS.holdGraceMs
  return withDraws(parts, { agentId, callId, amount, beside: true }, async (lent) => {
    // What a fleet lends is held in the ledger: by every node, and it goes back if this one dies.
    const kept = durable || lent > ZERO
    const entry = admissionOf(plan, callId, amount, kept ? expiresAt : null)
    const asked = { ...entry, lent }
    const { at } = await parts.actors.ask(agentId, callAdmit, asked, touching(plan))
    return { at, durable: kept }
  })
}

const exhausted = (parts: CallParts, plan: Plan, callId: string): ServiceError =>
  new ServiceError('free_tier_exhausted', {
    ...freeTierOf(parts, plan).fields,
    call_id: callId,
    tool: plan.tool.slug,
    limit_source: 'free_tier',
    limit_calls: plan.freePerDay,
    detail: `Only ${plan.freePerDay} free calls of ${plan.tool.slug} a day for each address${siteNote(plan)}: they begin again at midnight UTC.`,
    retry_after: Math.ceil(untilNextDay(parts.clock.now()) / 1000),
  })

const siteNote = ({ freePerDay, request }: Plan): string =>
  request.caller.siteId === null
    ? ''
    : `, and ${(freePerDay ?? 0) * LIMITS.siteShares} for each IPv6 /48`
