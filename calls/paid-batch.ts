import { problem, ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { least, micros, subtract, sum, toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { CallRow } from '../core/rows.ts'
import type { Claimed, Door } from '../payments/paying.ts'
import { Unpaid } from '../payments/unpaid.ts'
import type { CallParts, CallReply, CallRequest } from './calls.ts'
import { expected } from './expected.ts'
import { answeredBefore, unlessOvertaken } from './paid.ts'
import { answeredPart, batchBody, refused, type Part } from './parts.ts'
import { patienceOf, type Plan } from './plan.ts'
import { replyBody } from './reply.ts'
import { runTool, type Outcome } from './run.ts'
import { callRow } from './settle.ts'
import type { Ticket } from './ticket.ts'

/** A batch without a key: its priced calls, which one payment buys, between those that are free. */
export interface Basket {
  /** One for each call; null for a call that is free, or refused before it costs anything. */
  readonly priced: readonly (Plan | null)[]
  readonly price: Micros
}

export const basketOf = (priced: readonly (Plan | null)[]): Basket => ({
  priced,
  price: sum(priced.map((plan) => plan?.price ?? ZERO)),
})

const offerFor = (parts: CallParts, { priced, price }: Basket, path: string) =>
  parts.paying.offer(path, {
    description: `A batch of ${priced.length} calls`,
    price,
    deadlineMs: LIMITS.toolDeadlineMs,
  })

/** The 402 of a batch: one payment buys all of it. */
export const basketUnpaid = (parts: CallParts, basket: Basket, path: string): Unpaid =>
  new Unpaid(
    'payment_required',
    {
      price_usdc: toUsdc(basket.price),
      remedy: { action: 'onboard', method: 'POST', url: `${parts.publicUrl}/api/onboard` },
    },
    offerFor(parts, basket, path),
  )

/**
 * Buys a batch with the payment of its request, whole or not at all: an exact payment cannot be
 * given back in part, so if a priced call fails none is delivered and the payment is free again.
 */
export async function paidBatch(
  parts: CallParts,
  basket: Basket,
  requests: readonly CallRequest[],
  free: (request: CallRequest) => Promise<Part>,
): Promise<CallReply> {
  const { paying, clock } = parts
  const [first] = requests as [CallRequest]
  const { door } = first
  const started = clock.mono()
  const offer = offerFor(parts, basket, door.path)
  const payment = await paying.read(door, offer)
  const before = await answeredBefore(parts, payment, door, null, offer)
  if (before !== null) return before
  const callId = newId(clock.now())
  const buyer = { agentId: null, callId, patienceMs: patience(basket) }
  const paid = await paying
    .claim(payment, door, buyer, offer)
    .catch(unlessOvertaken(() => answeredBefore(parts, payment, door, null, offer)))
  if ('status' in paid) return paid
  const tries = await attempts(parts, basket, paid, callId)
  const whole = tries.every((one) => one === null || one.outcome !== null)
  const results = await Promise.all(
    requests.map(async (request, at) => {
      const one = tries[at] ?? null
      return one === null ? free(withoutPayment(request)) : partOf(parts, one, whole)
    }),
  )
  const body = batchBody(results, Math.round(clock.mono() - started))
  if (!whole) {
    const left = await paying.release(paid.ref, callId, null)
    const kept = { settlement_url: paying.settlementUrl(paid.ref), repeat: 'with the same payment' }
    const told = left === 'kept' ? { ...body, payment_kept: kept } : body
    return { status: 200, body: told, headers: {}, replayed: false, callId }
  }
  const made = tries.filter((one) => one !== null)
  await deliver(parts, paid, made, { status: 200, body })
  const headers = paying.replyHeaders(payment, paid.ref, paid.tx)
  return { status: 200, body, headers, replayed: false, callId }
}

/** The answer that a payment has bought before, whatever the batch comes to now; else null. */
export async function boughtBefore(parts: CallParts, door: Door): Promise<CallReply | null> {
  const payment = parts.paying.brings(door) ? await parts.paying.known(door) : null
  return payment === null ? null : answeredBefore(parts, payment, door, null, null)
}

/** The payment is for the priced calls: a free one has none of it. */
export const withoutPayment = (request: CallRequest): CallRequest => ({
  ...request,
  door: { ...request.door, headers: {} },
})

/** One priced call that was run: what it answered, or why it failed. */
interface Attempt {
  readonly ticket: Ticket
  readonly outcome: Outcome | null
  readonly error: unknown
  readonly ms: number
}

const patience = ({ priced }: Basket): number =>
  Math.max(...priced.map((plan) => (plan === null ? 0 : patienceOf(plan))))

/** Runs the priced calls side by side; the first has the id that claimed the payment. */
function attempts(parts: CallParts, basket: Basket, paid: Claimed, callId: string) {
  const first = basket.priced.findIndex((plan) => plan !== null)
  const costs = costsOf(basket, paid.payment.price)
  return Promise.all(
    basket.priced.map(async (plan, at) => {
      const id = at === first ? callId : newId(parts.clock.now())
      const cost = costs[at] ?? ZERO
      return plan === null ? null : attempt(parts, ticketOf(parts, plan, id, cost, paid))
    }),
  )
}

/** What each call costs: its price, or its part of what was paid before the prices changed. */
function costsOf({ priced, price }: Basket, paid: Micros): Micros[] {
  const prices = priced.map((plan) => plan?.price ?? ZERO)
  if (paid === price) return prices
  const last = priced.findLastIndex((plan) => plan !== null)
  let left = paid
  return prices.map((own, at) => {
    const part = at === last ? left : least(left, micros((own * paid) / price))
    left = subtract(left, part)
    return part
  })
}

async function attempt(parts: CallParts, ticket: Ticket): Promise<Attempt> {
  const started = parts.clock.mono()
  const ms = () => Math.round(parts.clock.mono() - started)
  try {
    const outcome = await runTool(parts, ticket, () => {})
    return { ticket, outcome, error: null, ms: ms() }
  } catch (error) {
    return { ticket, outcome: null, error, ms: ms() }
  }
}

const ticketOf = (
  parts: CallParts,
  plan: Plan,
  callId: string,
  amount: Micros,
  paid: Claimed,
): Ticket => ({
  callId,
  plan,
  amount,
  slot: false,
  allowed: false,
  durable: true,
  rail: paid.payment.rail,
  paid,
  at: Math.floor(parts.clock.now()),
})

const rowOf = ({ ticket, ms }: Attempt, at: number): CallRow =>
  callRow(ticket, ms, ticket.amount, at, null)

/** What the batch tells of a priced call: its answer only when all of it was bought. */
function partOf(parts: CallParts, one: Attempt, whole: boolean): Part {
  const { ticket, outcome, error, ms } = one
  const { tool, request } = ticket.plan
  if (!whole || outcome === null) {
    const told =
      error === null
        ? new ServiceError('batch_not_bought', { call_id: ticket.callId, cost_usdc: 0 })
        : expected(parts, 'a call of a batch failed', error)
    const body = problem(told, parts, `urn:request:${request.requestId}`)
    return refused(tool.slug, body, ms)
  }
  const url = ticket.paid === null ? null : parts.paying.settlementUrl(ticket.paid.ref)
  const row = rowOf(one, ticket.at)
  const owner = ticket.paid?.ref.payer ?? request.caller.visitorId
  return answeredPart(
    tool.slug,
    replyBody(outcome, row, request.ghost, null, { key: parts.receiptKey, owner }, url),
  )
}

/** Every call of it in one commit, and the whole answer with the first. */
function deliver(
  parts: CallParts,
  { ref }: Claimed,
  made: readonly Attempt[],
  answer: object,
): Promise<void> {
  const response = JSON.stringify(answer)
  const [first] = made
  return parts.paying.deliver({
    ref,
    callId: first?.ticket.callId ?? '',
    calls: made.map((one) => () => ({
      ...rowOf(one, one.ticket.at),
      response: one === first ? response : null,
    })),
    rows: made.flatMap(({ outcome }) => outcome?.traces.rows ?? []),
    events: made.flatMap(({ outcome }) => outcome?.traces.events ?? []),
    shares: made.flatMap(({ outcome, ticket }) =>
      (outcome?.traces.shares ?? []).map((share) => ({ ...share, callId: ticket.callId })),
    ),
  })
}
