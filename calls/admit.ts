import { untilNextDay } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { AskOptions } from '../actors/command.ts'
import type { Admission } from '../payments/admission.ts'
import { callAdmit, callForget, callQuote } from '../payments/commands/call.ts'
import { slotsLeft, slotTake } from '../payments/commands/visitor.ts'
import type { CallParts } from './calls.ts'
import { fundUrl, paymentRequired, type Plan } from './plan.ts'

/** A call that was let in: what it holds until it is settled or given back. */
export interface Ticket {
  readonly callId: string
  readonly plan: Plan
  /** What is held of the balance. */
  readonly amount: Micros
  /** A free call of the day is held. */
  readonly slot: boolean
  /** The hold is in the ledger, not in memory. */
  readonly durable: boolean
  readonly rail: 'free' | 'credits'
  /** Milliseconds; the fuse windows of this instant count it. */
  readonly at: number
}

/** Holds what the call will cost: a free slot, else credits. Refusals hold nothing. */
export async function admit(
  parts: CallParts,
  plan: Plan,
  callId: string,
  durable: boolean,
): Promise<Ticket> {
  const slot = await takeSlot(parts, plan, callId)
  const amount = slot ? ZERO : plan.price
  try {
    if (amount === null) throw exhausted(parts, plan, callId)
    const at = await enter(parts, plan, callId, amount, durable)
    return { callId, plan, amount, slot, durable, rail: amount === ZERO ? 'free' : 'credits', at }
  } catch (error) {
    if (slot) giveSlotBack(parts, plan, callId)
    throw tell(parts, plan, callId, error)
  }
}

/** The hold of a call that was never run, or whose answer another node has given. */
export async function forget(parts: CallParts, ticket: Ticket): Promise<void> {
  const { plan, callId } = ticket
  const { agentId } = plan.request.caller
  if (ticket.slot) giveSlotBack(parts, plan, callId)
  if (agentId === null) return
  parts.actors.letGo(agentId, callId)
  if (ticket.durable) await parts.actors.ask(agentId, callForget, { callId }, touching(plan))
}

/** Which free calls are left, and what would refuse this one; nothing is held. */
export async function outlook(parts: CallParts, plan: Plan, callId: string): Promise<Outlook> {
  const left = await freeLeft(parts, plan)
  const amount = left !== null && left > 0 ? ZERO : plan.price
  return { left, amount, refusal: await refusalOf(parts, plan, callId, amount) }
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
  return refusal === null ? null : (tell(parts, plan, callId, refusal) as ServiceError)
}

async function enter(
  parts: CallParts,
  plan: Plan,
  callId: string,
  amount: Micros,
  durable: boolean,
): Promise<number> {
  const { agentId } = plan.request.caller
  if (agentId === null) {
    if (amount > ZERO) throw paymentRequired(parts, plan, callId)
    return Math.floor(parts.clock.now())
  }
  const patience = plan.tool.timeoutMs + LIMITS.holdGraceMs
  const expiresAt = durable ? Math.floor(parts.clock.now()) + patience : null
  const asked = admissionOf(plan, callId, amount, expiresAt)
  const { at } = await parts.actors.ask(agentId, callAdmit, asked, touching(plan))
  return at
}

const admissionOf = (
  { request, tool }: Plan,
  callId: string,
  amount: Micros,
  expiresAt: number | null,
): Admission => ({
  callId,
  tool: tool.slug,
  amount,
  key: request.caller.key,
  taskId: request.taskId,
  backpackId: request.backpackId,
  idempotencyKey: request.idempotency?.key ?? null,
  expiresAt,
})

/** The actors a call names; ended ones lie in Postgres and are fetched first. */
export function touching({
  request,
}: Plan): AskOptions & { touch: NonNullable<AskOptions['touch']> } {
  const { taskId, backpackId, idempotency } = request
  return {
    touch: [
      ...(taskId === null ? [] : [{ kind: 'taskSession' as const, id: taskId }]),
      ...(backpackId === null ? [] : [{ kind: 'backpack' as const, id: backpackId }]),
    ],
    key: idempotency?.key,
    lookedUpAt: idempotency?.lookedUpAt,
  }
}

async function takeSlot(parts: CallParts, plan: Plan, callId: string): Promise<boolean> {
  const { freePerDay, request, tool } = plan
  if (freePerDay === null) return false
  try {
    const slot = { callId, tool: tool.slug, limit: freePerDay }
    await parts.actors.ask(request.caller.visitorId, slotTake, slot)
    return true
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'free_tier_exhausted') return false
    throw error
  }
}

async function freeLeft(
  parts: CallParts,
  { freePerDay, request, tool }: Plan,
): Promise<number | null> {
  if (freePerDay === null) return null
  const asked = { tool: tool.slug, limit: freePerDay }
  return parts.actors.ask(request.caller.visitorId, slotsLeft, asked)
}

export function giveSlotBack(parts: CallParts, plan: Plan, callId: string): void {
  parts.actors.letGo(plan.request.caller.visitorId, callId)
}

const exhausted = (parts: CallParts, plan: Plan, callId: string): ServiceError =>
  new ServiceError('free_tier_exhausted', {
    call_id: callId,
    tool: plan.tool.slug,
    limit_source: 'free_tier',
    limit_calls: plan.freePerDay,
    retry_after: Math.ceil(untilNextDay(parts.clock.now()) / 1000),
  })

/** Adds to a refusal what only this layer knows. */
export function tell(parts: CallParts, plan: Plan, callId: string, error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error
  const { agentId } = plan.request.caller
  Object.assign(error.details, { call_id: callId, tool: plan.tool.slug })
  if (error.code === 'payment_required' && agentId !== null) {
    Object.assign(error.details, {
      price_usdc: toUsdc(plan.price ?? ZERO),
      agent_id: agentId,
      fund_url: fundUrl(parts, agentId),
    })
  }
  return error
}
