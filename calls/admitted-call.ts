import type { AggregateCommandOptions } from '../actors/aggregate-command-types.ts'
import { ServiceError, httpStatusOf, type ErrorDetails } from '../core/errors.ts'
import { toProblemDocument } from '../core/problem-document.ts'
import { toUsdc, ZERO_MICROS, type Micros } from '../core/money.ts'
import type {
  CallAdmissionRequest,
  OutcomeUnknownReply,
} from '../payments/agent-call-admission-request-types.ts'
import type { ClaimedPayment } from '../payments/payment-service-types.ts'
import { PaymentRequiredError } from '../payments/payment-required-error.ts'
import type { Tool } from '../tools/define-tool.ts'
import type { CallDeps } from './call-request-and-reply-types.ts'
import {
  usedUpFreeCallDetails,
  agentFundingUrl,
  callPaymentOffer,
  type ValidatedPricedCall,
} from './parse-and-price-call.ts'

/** An admitted call with everything it holds until it is settled or released. */
export interface AdmittedCall {
  readonly callId: string
  readonly plan: ValidatedPricedCall
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
  plan: ValidatedPricedCall,
  callId: string,
  amount: Micros,
  expiresAt: number | null,
): CallAdmissionRequest => {
  const { request, tool } = plan
  return {
    callId,
    tool: tool.slug,
    amount,
    key: request.caller.key,
    taskId: request.taskId,
    backpackId: request.backpackId,
    idempotencyKey: request.idempotency?.key ?? null,
    expiresAt,
    payment: null,
    passable: isPaidByPasses(plan),
    ...((tool.cashOnly === true || tool.community?.takesCashOnly(request.caller) === true) && {
      from: 'cash' as const,
    }),
    ...(tool.quota !== undefined && { quota: { most: tool.quota.callsPerDay } }),
    ...(expiresAt !== null &&
      mustNotRerunUnderIdempotencyKey(tool, request) && { intent: toCallIntent(request, callId) }),
  }
}

/**
 * Whether a task pass may pay the call, if its price allows (decision 235): its tool has one price for all inputs and
 * shares it with nobody, and no schedule makes the call, which would add its fee.
 */
const isPaidByPasses = ({ request, tool }: ValidatedPricedCall): boolean =>
  hasFixedStationOnlyPrice(tool) && request.run === undefined

/** Whether the price of a tool is the same for all inputs, the station's alone, and not for cash only. */
export const hasFixedStationOnlyPrice = ({
  price,
  sharesPrice,
  cashOnly,
}: Pick<Tool, 'price' | 'sharesPrice' | 'cashOnly'>): boolean =>
  typeof price !== 'function' && sharesPrice !== true && cashOnly !== true

/** Whether the call must never run again under its key, even after a crash of its node. */
export const mustNotRerunUnderIdempotencyKey = (
  tool: ValidatedPricedCall['tool'],
  request: ValidatedPricedCall['request'],
): boolean => tool.effect === 'external' && request.idempotency !== null

/** Timers do not know the station's URL, so links are relative. */
const NO_ORIGIN = { publicUrl: '', deposits: true }

function toCallIntent(
  { idempotency, caller, door, ghost, requestId }: ValidatedPricedCall['request'],
  callId: string,
): OutcomeUnknownReply {
  const error = new ServiceError('outcome_unknown', {
    call_id: callId,
    cost_usdc: 0,
    // A payment may settle before its node dies: it is credited then.
    ...(door.paymentHeader === null ? { refunded: true } : {}),
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
export function listActorsToLoadForCall({
  request,
}: ValidatedPricedCall): AggregateCommandOptions & {
  touch: NonNullable<AggregateCommandOptions['touch']>
} {
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

/** Lets `why_url` explain a rejection by a machine. */
export function recordExplainedRefusal(
  { explained }: Pick<CallDeps, 'explained'>,
  { request: { caller, requestId } }: ValidatedPricedCall,
  callId: string,
  error: unknown,
): void {
  if (!(error instanceof ServiceError) || caller.agentId === null) return
  error.details['call_id'] ??= callId
  explained.note(error, { agentId: caller.agentId, keyId: caller.key?.id ?? null, requestId })
}

/** Adds call details to a rejection, and payment options to a 402. */
export function addRefusalDetails(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
  error: unknown,
): unknown {
  if (!(error instanceof ServiceError)) return error
  const { agentId } = plan.request.caller
  Object.assign(error.details, { call_id: callId, tool: plan.tool.slug })
  if (agentId === null || !(error.code === 'payment_required' || error.code === 'cash_required'))
    return error
  const free = usedUpFreeCallDetails(parts, plan)
  const details = {
    ...error.details,
    detail: [...free.notes, describeShortfall(plan, error.details)].join(' '),
    ...free.fields,
    price_usdc: toUsdc(plan.price ?? ZERO_MICROS),
    agent_id: agentId,
    fund_url: agentFundingUrl(parts, agentId),
  }
  return new PaymentRequiredError(error.code, details, callPaymentOffer(parts, plan))
}

function describeShortfall(
  { price }: ValidatedPricedCall,
  { balance_usdc: balance, needed_usdc: needed, cash_usdc: cash }: ErrorDetails,
): string {
  const cost = `This call costs ${Number(needed ?? toUsdc(price ?? ZERO_MICROS))} USDC`
  if (typeof cash === 'number')
    return `${cost} of deposited credits and ${cash} USDC of them is available: promotional credits do not pay this tool.`
  return typeof balance === 'number' ? `${cost} and ${balance} USDC is available.` : `${cost}.`
}
