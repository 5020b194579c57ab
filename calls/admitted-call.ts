import type { CommandOptions } from '../actors/command.ts'
import { toProblemDocument, ServiceError, httpStatusOf, type ErrorDetails } from '../core/errors.ts'
import { toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { CallAdmission, OutcomeUnknownReply } from '../payments/call-admission.ts'
import type { ClaimedPayment } from '../payments/payment-service-types.ts'
import { PaymentRequiredError } from '../payments/payment-required-error.ts'
import type { CallDeps } from './call-types.ts'
import { freeTierDetails, agentFundingUrl, callPaymentOffer, type CallPlan } from './call-plan.ts'

/** A call that was let in: what it holds until it is settled or given back. */
export interface AdmittedCall {
  readonly callId: string
  readonly plan: CallPlan
  /** What is held of the balance. */
  readonly amount: Micros
  /** A free call of the day is held. */
  readonly slot: boolean
  /** It was let in as one of the agent's free calls for life. */
  readonly allowed: boolean
  /** The hold is in the ledger, not in memory. */
  readonly durable: boolean
  readonly rail: 'free' | 'credits' | ClaimedPayment['payment']['rail']
  /** Another rail pays for it. */
  readonly paid: ClaimedPayment | null
  /** Milliseconds; the fuse windows of this instant count it. */
  readonly at: number
}

/** What the owner's limits and the purse are asked of a call. */
export const toAdmissionRequest = (
  { request, tool }: CallPlan,
  callId: string,
  amount: Micros,
  expiresAt: number | null,
): CallAdmission => ({
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

/** It must never run again under its key, whatever became of the node that ran it. */
export const hasExternalEffect = (tool: CallPlan['tool'], request: CallPlan['request']): boolean =>
  tool.effect === 'external' && request.idempotency !== null

/** Links of what a timer writes are relative: it knows no address of the station. */
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

/** The actors a call names; ended ones lie in Postgres and are fetched first. */
export function actorsToLoad({
  request,
}: CallPlan): CommandOptions & { touch: NonNullable<CommandOptions['touch']> } {
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

/** Adds to a refusal what only this layer knows, and to a 402 how to pay at once. */
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
  const free = freeTierDetails(parts, plan)
  const details = {
    ...error.details,
    detail: [...free.told, describeShortfall(plan, error.details)].join(' '),
    ...free.fields,
    price_usdc: toUsdc(plan.price ?? ZERO),
    agent_id: agentId,
    fund_url: agentFundingUrl(parts, agentId),
  }
  return new PaymentRequiredError('payment_required', details, callPaymentOffer(parts, plan))
}

/** The sentence of a refusal for want of credits. */
function describeShortfall(
  { price }: CallPlan,
  { balance_usdc: balance, needed_usdc: needed }: ErrorDetails,
): string {
  const cost = `This call costs ${Number(needed ?? toUsdc(price ?? ZERO))} USDC`
  return typeof balance === 'number' ? `${cost} and ${balance} USDC is available.` : `${cost}.`
}
