import { ServiceError, httpStatusOf } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { Micros } from '../core/money.ts'
import {
  admitCallCommand,
  releaseCallHoldCommand,
  quoteCallCommand,
} from '../payments/commands/call-commands.ts'
import type { ClaimedPayment, PaymentRequestContext } from '../payments/payment-service-types.ts'
import { PaymentRequiredError } from '../payments/payment-required-error.ts'
import {
  toCallAdmissionRequest,
  addRefusalDetails,
  listActorsToLoadForCall,
  type AdmittedCall,
} from './admitted-call.ts'
import type { CallDeps, CallReply } from './call-request-and-reply-types.ts'
import {
  callPaymentOffer,
  callHoldTimeoutMs,
  isAnswerHeldUntilSettlement,
  type ValidatedPricedCall,
} from './parse-and-price-call.ts'

/** The payment of this request has bought a response already. */
export class PaymentReplayError extends Error {
  readonly reply: CallReply
  constructor(reply: CallReply) {
    super('this payment has been answered already')
    this.reply = reply
  }
}

/** Admits a call with a payment: checks the owner's limits, then claims the payment. */
export async function admitPaidCall(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  amount: Micros,
): Promise<AdmittedCall> {
  const { paying } = parts
  const { door, caller } = plan.request
  const { agentId } = caller
  const offer = callPaymentOffer(parts, plan)
  const payment = await paying
    .read(door, offer)
    .catch(async (error: unknown) =>
      Promise.reject(await preferLimitRefusal(parts, plan, callId, error)),
    )
  const look = () => findPaidReply(parts, payment, door, agentId, offer)
  const before = await look()
  if (before !== null) throw new PaymentReplayError(before)
  const at = await holdForPayment(parts, plan, callId, amount, paying.refOf(payment)).catch(
    recoverReplyOfRacingPaidRequest(look),
  )
  if (typeof at !== 'number') throw new PaymentReplayError(at)
  try {
    const patienceMs = callHoldTimeoutMs(plan)
    // Settlement, tool and commit must fit in the time after this.
    const claimBy = agentId === null ? Infinity : at + LIMITS.holdGraceMs
    const { sharesPrice = false } = plan.tool
    const withholdsAnswer = isAnswerHeldUntilSettlement(plan)
    const buyer = { agentId, callId, patienceMs, claimBy, sharesPrice, withholdsAnswer }
    const paid = await paying
      .claim(payment, door, buyer, offer)
      .catch(recoverReplyOfRacingPaidRequest(look))
    if ('status' in paid) throw new PaymentReplayError(paid)
    // A payment made before a price change is charged as made.
    return toPaidCall(plan, callId, payment.price, paid, at)
  } catch (error) {
    await releasePaidHold(parts, plan, callId)
    throw error
  }
}

/** Returns the response that a payment has bought; null if the payment is unused. */
export async function findPaidReply(
  { paying }: CallDeps,
  payment: ClaimedPayment['payment'],
  door: PaymentRequestContext,
  agentId: string | null,
  offer: PaymentRequiredError['offer'],
): Promise<CallReply | null> {
  const before = await paying.findEarlierReply(payment, door, agentId, offer)
  if (before === null) return null
  const headers = paying.replyHeaders(payment, paying.refOf(payment), before.tx)
  const body = before.body as CallReply['body']
  return { ...before, body, headers, replayed: true }
}

/**
 * Two requests with one payment: the other one may have caused this error and have a response by
 * now, which is then the response of both.
 */
export const recoverReplyOfRacingPaidRequest =
  (look: () => Promise<CallReply | null>) =>
  async (error: unknown): Promise<CallReply> => {
    const refused = error instanceof ServiceError && httpStatusOf(error.code) < 500
    const reply = refused ? await look() : null
    if (reply === null) throw error
    return reply
  }

const toPaidCall = (
  plan: ValidatedPricedCall,
  callId: string,
  amount: Micros,
  paid: ClaimedPayment,
  at: number,
): AdmittedCall => ({
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

/** Reports a limit of the owner before a payment error, so that payment cannot bypass limits. */
async function preferLimitRefusal(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  error: unknown,
): Promise<unknown> {
  const { agentId } = plan.request.caller
  if (!(error instanceof PaymentRequiredError) || agentId === null || plan.price === null)
    return error
  const admission = toCallAdmissionRequest(plan, callId, plan.price, null)
  const { refusal } = await parts.actors.ask(
    agentId,
    quoteCallCommand,
    admission,
    listActorsToLoadForCall(plan),
  )
  if (refusal === null || refusal.code === 'payment_required') return error
  return addRefusalDetails(parts, plan, callId, refusal)
}

/**
 * Holds the payment in the caller's limits. Returns the admission time; a caller without a key has
 * no limits.
 */
async function holdForPayment(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  amount: Micros,
  payment: ReturnType<CallDeps['paying']['refOf']>,
): Promise<number> {
  const now = Math.floor(parts.clock.now())
  const { agentId } = plan.request.caller
  if (agentId === null) return now
  const admission = toCallAdmissionRequest(plan, callId, amount, now + callHoldTimeoutMs(plan))
  const admitted = await parts.actors.ask(
    agentId,
    admitCallCommand,
    { ...admission, payment },
    listActorsToLoadForCall(plan),
  )
  return admitted.at
}

async function releasePaidHold(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
): Promise<void> {
  const { agentId } = plan.request.caller
  if (agentId === null) return
  await parts.actors
    .ask(agentId, releaseCallHoldCommand, { callId }, listActorsToLoadForCall(plan))
    .catch((error: unknown) => parts.log('hold not given back', error))
}
