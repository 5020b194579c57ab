import { ServiceError, statusOf } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { Micros } from '../core/money.ts'
import { callAdmit, callForget, callQuote } from '../payments/commands/call.ts'
import type { Claimed, Door } from '../payments/paying.ts'
import { Unpaid } from '../payments/unpaid.ts'
import { admissionOf, tell, touching, type Ticket } from './ticket.ts'
import type { CallParts, CallReply } from './calls.ts'
import { offerOf, patienceOf, type Plan } from './plan.ts'

/** The payment of this request has bought an answer before: this one. */
export class AnsweredBefore extends Error {
  readonly reply: CallReply
  constructor(reply: CallReply) {
    super('this payment has been answered already')
    this.reply = reply
  }
}

/** Lets a call in that its request pays for: the owner's limits first, then the payment. */
export async function admitPaid(
  parts: CallParts,
  plan: Plan,
  callId: string,
  amount: Micros,
): Promise<Ticket> {
  const { paying } = parts
  const { door, caller } = plan.request
  const { agentId } = caller
  const offer = offerOf(parts, plan)
  const payment = await paying
    .read(door, offer)
    .catch(async (error: unknown) => Promise.reject(await limitsFirst(parts, plan, callId, error)))
  const look = () => answeredBefore(parts, payment, door, agentId, offer)
  const before = await look()
  if (before !== null) throw new AnsweredBefore(before)
  const at = await hold(parts, plan, callId, amount, paying.refOf(payment)).catch(
    unlessOvertaken(look),
  )
  if (typeof at !== 'number') throw new AnsweredBefore(at)
  try {
    const patienceMs = patienceOf(plan)
    // What follows has its time from then on: the settlement, the tool, the commit.
    const claimBy = agentId === null ? Infinity : at + LIMITS.holdGraceMs
    const { sharesPrice = false } = plan.tool
    const buyer = { agentId, callId, patienceMs, claimBy, sharesPrice }
    const paid = await paying.claim(payment, door, buyer, offer).catch(unlessOvertaken(look))
    if ('status' in paid) throw new AnsweredBefore(paid)
    // What was paid before the price changed is what the call costs.
    return ticketOf(plan, callId, payment.price, paid, at)
  } catch (error) {
    await letGo(parts, plan, callId)
    throw error
  }
}

/** The answer that a payment has bought already; null when it is free, or settled and still unused. */
export async function answeredBefore(
  { paying }: CallParts,
  payment: Claimed['payment'],
  door: Door,
  agentId: string | null,
  offer: Unpaid['offer'],
): Promise<CallReply | null> {
  const before = await paying.earlier(payment, door, agentId, offer)
  if (before === null) return null
  const headers = paying.replyHeaders(payment, paying.refOf(payment), before.tx)
  const body = before.body as CallReply['body']
  return { ...before, body, headers, replayed: true }
}

/**
 * Sent twice at once, and the other one was quicker: what refuses this one is what that one did. It may
 * have been answered by now, and then this is the answer of both.
 */
export const unlessOvertaken =
  (look: () => Promise<CallReply | null>) =>
  async (error: unknown): Promise<CallReply> => {
    const refused = error instanceof ServiceError && statusOf(error.code) < 500
    const reply = refused ? await look() : null
    if (reply === null) throw error
    return reply
  }

const ticketOf = (
  plan: Plan,
  callId: string,
  amount: Micros,
  paid: Claimed,
  at: number,
): Ticket => ({
  callId,
  plan,
  amount,
  slot: false,
  allowed: false,
  durable: true,
  rail: paid.payment.rail,
  paid,
  at,
})

/** A limit of the owner is told before a fault of the payment: money must be no way around it. */
async function limitsFirst(
  parts: CallParts,
  plan: Plan,
  callId: string,
  error: unknown,
): Promise<unknown> {
  const { agentId } = plan.request.caller
  if (!(error instanceof Unpaid) || agentId === null || plan.price === null) return error
  const asked = admissionOf(plan, callId, plan.price, null)
  const { refusal } = await parts.actors.ask(agentId, callQuote, asked, touching(plan))
  if (refusal === null || refusal.code === 'payment_required') return error
  return tell(parts, plan, callId, refusal)
}

/** The payment counts in the limits of its caller like any other; a caller without a key has none. */
async function hold(
  parts: CallParts,
  plan: Plan,
  callId: string,
  amount: Micros,
  payment: ReturnType<CallParts['paying']['refOf']>,
): Promise<number> {
  const now = Math.floor(parts.clock.now())
  const { agentId } = plan.request.caller
  if (agentId === null) return now
  const asked = admissionOf(plan, callId, amount, now + patienceOf(plan))
  const admitted = await parts.actors.ask(agentId, callAdmit, { ...asked, payment }, touching(plan))
  return admitted.at
}

async function letGo(parts: CallParts, plan: Plan, callId: string): Promise<void> {
  const { agentId } = plan.request.caller
  if (agentId === null) return
  await parts.actors
    .ask(agentId, callForget, { callId }, touching(plan))
    .catch((error: unknown) => parts.log('hold not given back', error))
}
