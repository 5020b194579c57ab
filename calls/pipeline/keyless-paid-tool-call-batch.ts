import { ServiceError } from '../../core/errors.ts'
import { toExactJson } from '../../core/json/exact.ts'
import { toProblemDocument } from '../../core/problem-document.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  smallerOfTwoMicros,
  asMicros,
  subtractMicros,
  sumMicros,
  toUsdc,
  ZERO_MICROS,
  type Micros,
} from '../../core/money.ts'
import type { CallRow } from '../../core/aggregate-commit-row-types.ts'
import type { ClaimedPayment, PaymentRequestContext } from '../../payments/payment-service-types.ts'
import { PaymentRequiredError } from '../../payments/payment-required-error.ts'
import type { CallDeps, CallReply, CallRequest } from '../call-request-and-reply-types.ts'
import { toCallError } from '../to-call-error.ts'
import { findPaidReply, recoverReplyOfRacingPaidRequest } from '../paid-call-admission.ts'
import {
  succeededToolCallBatchItem,
  toolCallBatchResultBody,
  failedToolCallBatchItem,
  type ToolCallBatchItemResult,
} from './tool-call-batch-result.ts'
import { callHoldTimeoutMs, type ValidatedPricedCall } from '../parse-and-price-call.ts'
import { toCallReplyBody } from '../call-reply-body.ts'
import { runTool, type ToolRunResult } from '../run-tool.ts'
import { toCallRow } from '../settle-call.ts'
import type { AdmittedCall } from '../admitted-call.ts'

/** A keyless batch: priced calls, bought by one payment, and free ones. */
export interface PricedToolCallBatch {
  /** One entry per call; null for a call that is free or already rejected. */
  readonly priced: readonly (ValidatedPricedCall | null)[]
  readonly price: Micros
}

export const toPricedToolCallBatch = (
  priced: readonly (ValidatedPricedCall | null)[],
): PricedToolCallBatch => ({
  priced,
  price: sumMicros(priced.map((plan) => plan?.price ?? ZERO_MICROS)),
})

const pipelineOffer = (parts: CallDeps, { priced, price }: PricedToolCallBatch, path: string) =>
  parts.paying.offer(path, {
    description: `A batch of ${priced.length} calls`,
    price,
    deadlineMs: LIMITS.toolDeadlineMs,
  })

/** The 402 of a batch. */
export const createToolCallBatchPaymentRequiredError = (
  parts: CallDeps,
  pipeline: PricedToolCallBatch,
  path: string,
): PaymentRequiredError =>
  new PaymentRequiredError(
    'payment_required',
    {
      price_usdc: toUsdc(pipeline.price),
      remedy: { action: 'onboard', method: 'POST', url: `${parts.publicUrl}/api/onboard` },
    },
    pipelineOffer(parts, pipeline, path),
  )

/**
 * Runs a batch for one payment, all or nothing: an exact payment cannot be refunded in part. If a
 * priced call fails, none is delivered and the payment is released.
 */
export async function executePaidToolCallBatch(
  parts: CallDeps,
  pipeline: PricedToolCallBatch,
  requests: readonly CallRequest[],
  free: (request: CallRequest) => Promise<ToolCallBatchItemResult>,
): Promise<CallReply> {
  const { paying, clock } = parts
  const [first] = requests as [CallRequest]
  const { door } = first
  const started = clock.mono()
  const offer = pipelineOffer(parts, pipeline, door.path)
  const payment = await paying.read(door, offer)
  const before = await findPaidReply(parts, payment, door, null, offer)
  if (before !== null) return before
  const callId = newUuidV7(clock.now())
  const buyer = { agentId: null, callId, patienceMs: pipelineTimeoutMs(pipeline) }
  const paid = await paying
    .claim(payment, door, buyer, offer)
    .catch(recoverReplyOfRacingPaidRequest(() => findPaidReply(parts, payment, door, null, offer)))
  if ('status' in paid) return paid
  const tries = await runPricedCalls(parts, pipeline, paid, callId)
  const whole = tries.every((one) => one === null || one.outcome !== null)
  const results = await Promise.all(
    requests.map(async (request, at) => {
      const one = tries[at] ?? null
      return one === null ? free(withoutPaymentHeaders(request)) : toPipelineItem(parts, one, whole)
    }),
  )
  const body = toolCallBatchResultBody(results, Math.round(clock.mono() - started))
  if (!whole) {
    const left = await paying.release(paid.ref, callId, null)
    const kept = { settlement_url: paying.settlementUrl(paid.ref), repeat: 'with the same payment' }
    const failedBody = left === 'kept' ? { ...body, payment_kept: kept } : body
    return { status: 200, body: failedBody, headers: {}, replayed: false, callId }
  }
  const made = tries.filter((one) => one !== null)
  await deliverPipeline(parts, paid, made, { status: 200, body })
  const headers = paying.replyHeaders(payment, paid.ref, paid.tx)
  return { status: 200, body, headers, replayed: false, callId }
}

/** Returns the response that a payment has bought, at any current price; else null. */
export async function findPurchasedToolCallBatch(
  parts: CallDeps,
  door: PaymentRequestContext,
): Promise<CallReply | null> {
  const payment = await parts.paying.findUsedPayment(door)
  return payment === null ? null : findPaidReply(parts, payment, door, null, null)
}

/** The payment covers priced calls only. */
export const withoutPaymentHeaders = (request: CallRequest): CallRequest => ({
  ...request,
  door: { ...request.door, paymentHeader: null },
})

/** One executed priced call, with its output or error. */
interface PipelineAttempt {
  readonly ticket: AdmittedCall
  readonly outcome: ToolRunResult | null
  readonly error: unknown
  readonly ms: number
}

const pipelineTimeoutMs = ({ priced }: PricedToolCallBatch): number =>
  Math.max(...priced.map((plan) => (plan === null ? 0 : callHoldTimeoutMs(plan))))

/** Runs the priced calls in parallel. The first one has the call id of the claim. */
function runPricedCalls(
  parts: CallDeps,
  pipeline: PricedToolCallBatch,
  paid: ClaimedPayment,
  callId: string,
) {
  const first = pipeline.priced.findIndex((plan) => plan !== null)
  const costs = costsOf(pipeline, paid.payment.price)
  return Promise.all(
    pipeline.priced.map(async (plan, at) => {
      const id = at === first ? callId : newUuidV7(parts.clock.now())
      const cost = costs[at] ?? ZERO_MICROS
      return plan === null
        ? null
        : runPricedCall(parts, toPipelineCall(parts, plan, id, cost, paid))
    }),
  )
}

/** The cost of each call: its price, or its share of a payment made before a price change. */
function costsOf({ priced, price }: PricedToolCallBatch, paid: Micros): Micros[] {
  const prices = priced.map((plan) => plan?.price ?? ZERO_MICROS)
  if (paid === price) return prices
  const last = priced.findLastIndex((plan) => plan !== null)
  let left = paid
  return prices.map((own, at) => {
    const part = at === last ? left : smallerOfTwoMicros(left, asMicros((own * paid) / price))
    left = subtractMicros(left, part)
    return part
  })
}

async function runPricedCall(parts: CallDeps, ticket: AdmittedCall): Promise<PipelineAttempt> {
  const started = parts.clock.mono()
  const ms = () => Math.round(parts.clock.mono() - started)
  try {
    const outcome = await runTool(parts, ticket, () => {})
    return { ticket, outcome, error: null, ms: ms() }
  } catch (error) {
    return { ticket, outcome: null, error, ms: ms() }
  }
}

const toPipelineCall = (
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  amount: Micros,
  paid: ClaimedPayment,
): AdmittedCall => ({
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

const rowOf = ({ ticket, ms }: PipelineAttempt, at: number): CallRow =>
  toCallRow(ticket, ms, ticket.amount, at, null)

/** The batch entry of a priced call. Shows its output only if the whole batch was bought. */
function toPipelineItem(
  parts: CallDeps,
  one: PipelineAttempt,
  whole: boolean,
): ToolCallBatchItemResult {
  const { ticket, outcome, error, ms } = one
  const { tool, request } = ticket.plan
  if (!whole || outcome === null) {
    const failure =
      error === null
        ? new ServiceError('batch_not_bought', { call_id: ticket.callId, cost_usdc: 0 })
        : toCallError(parts, 'a call of a batch failed', error)
    const body = toProblemDocument(failure, parts, `urn:request:${request.requestId}`)
    return failedToolCallBatchItem(tool.slug, body, ms)
  }
  const url = ticket.paid === null ? null : parts.paying.settlementUrl(ticket.paid.ref)
  const row = rowOf(one, ticket.at)
  const owner = ticket.paid?.ref.payer ?? request.caller.visitorId
  return succeededToolCallBatchItem(
    tool.slug,
    toCallReplyBody(
      outcome,
      row,
      request.ghost,
      null,
      { key: parts.receiptKey, owner },
      {
        settlementUrl: url,
        pass: null,
      },
    ),
  )
}

/** Commits all calls together, the full response with the first one. */
function deliverPipeline(
  parts: CallDeps,
  { ref }: ClaimedPayment,
  made: readonly PipelineAttempt[],
  answer: object,
): Promise<void> {
  const response = toExactJson(answer)
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
