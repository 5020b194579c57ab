import type { AggregateCommandOptions } from '../actors/aggregate-command-types.ts'
import { ServiceError, httpStatusOf, type ErrorDetails } from '../core/errors.ts'
import { toProblemDocument } from '../core/problem-document.ts'
import { toUsdc, ZERO, type Micros } from '../core/money.ts'
import type {
  CallAdmissionRequest,
  OutcomeUnknownReply,
} from '../payments/call-admission-request.ts'
import type { ClaimedPayment } from '../payments/payment-service-types.ts'
import { PaymentRequiredError } from '../payments/payment-required-error.ts'
import type { CallDeps } from './call-request-and-reply-types.ts'
import {
  usedUpFreeCallDetails,
  agentFundingUrl,
  callPaymentOffer,
  type CallPlan,
} from './call-plan.ts'

/** An admitted call with everything it holds until it is settled or released. */
export interface AdmittedCall {
  readonly callId: string
  readonly plan: CallPlan
  /** Amount held of the balance. */
  readonly amount: Micros
  /** It holds a free call of the day. */
  readonly slot: boolean
  /** It uses a lifetime free call. */
  readonly allowed: boolean
  /** The hold is in the ledger and not in memory. */
  readonly durable: boolean
  readonly rail: 'free' | 'credits' | ClaimedPayment['payment']['rail']
  /** The on-chain payment that pays for it. */
  readonly paid: ClaimedPayment | null
  /** Milliseconds. Spend windows count the call at this time. */
  readonly at: number
}

/** The request to the owner's limits and balance. */
export const toCallAdmissionRequest = (
  { request, tool }: CallPlan,
  callId: string,
  amount: Micros,
  expiresAt: number | null,
): CallAdmissionRequest => ({
  callId,
  tool: tool.slug,
  amount,
  key: request.caller.key,
  taskId: request.taskId,
  backpackId: request.backpackId,
  idempotencyKey: request.idempotency?.key ?? null,
  expiresAt,
  payment: null,
  ...(tool.quota !== undefined && { quota: { most: tool.quota.callsPerDay } }),
  ...(expiresAt !== null &&
    hasExternalEffect(tool, request) && { intent: toCallIntent(request, callId) }),
})

/** Whether the call must never run again under its key, even after a crash of its node. */
export const hasExternalEffect = (tool: CallPlan['tool'], request: CallPlan['request']): boolean =>
  tool.effect === 'external' && request.idempotency !== null

/** Timers do not know the station's URL, so links are relative. */
const NO_ORIGIN = { publicUrl: '', deposits: true }

function toCallIntent(
  { idempotency, caller, ghost, requestId }: CallPlan['request'],
  callId: string,
): OutcomeUnknownReply {
  const error = new ServiceError('outcome_unknown', {
    call_id: callId,
    refunded: true,
    cost_usdc: 0,
  })
  const body = toProblemDocument(error, NO_ORIGIN, `urn:request:${requestId}`)
  const response = JSON.stringify({ status: httpStatusOf(error.code), body })
  return {
    hash: idempotency?.hash ?? '',
    keyId: caller.key?.id ?? null,
    ghost: ghost !== 'off',
    response,
  }
}

/** Actors of a call that may be at rest and must be loaded first. */
export function actorsToLoad({
  request,
}: CallPlan): AggregateCommandOptions & { touch: NonNullable<AggregateCommandOptions['touch']> } {
  const { taskId, backpackId, idempotency, run } = request
  return {
    touch: [
      ...(taskId === null ? [] : [{ kind: 'taskSession' as const, id: taskId }]),
      ...(backpackId === null ? [] : [{ kind: 'backpack' as const, id: backpackId }]),
      ...(run === undefined ? [] : [{ kind: 'schedule' as const, id: run.scheduleId }]),
    ],
    key: idempotency?.key,
    lookedUpAt: idempotency?.lookedUpAt,
  }
}

/** Adds call details to a rejection, and payment options to a 402. */
export function addRefusalDetails(
  parts: CallDeps,
  plan: CallPlan,
  callId: string,
  error: unknown,
): unknown {
  if (!(error instanceof ServiceError)) return error
  const { agentId } = plan.request.caller
  Object.assign(error.details, { call_id: callId, tool: plan.tool.slug })
  if (error.code !== 'payment_required' || agentId === null) return error
  const free = usedUpFreeCallDetails(parts, plan)
  const details = {
    ...error.details,
    detail: [...free.notes, describeShortfall(plan, error.details)].join(' '),
    ...free.fields,
    price_usdc: toUsdc(plan.price ?? ZERO),
    agent_id: agentId,
    fund_url: agentFundingUrl(parts, agentId),
  }
  return new PaymentRequiredError('payment_required', details, callPaymentOffer(parts, plan))
}

function describeShortfall(
  { price }: CallPlan,
  { balance_usdc: balance, needed_usdc: needed }: ErrorDetails,
): string {
  const cost = `This call costs ${Number(needed ?? toUsdc(price ?? ZERO))} USDC`
  return typeof balance === 'number' ? `${cost} and ${balance} USDC is available.` : `${cost}.`
}
