import type { AskOptions } from '../actors/command.ts'
import { problem, ServiceError, statusOf, type Details } from '../core/errors.ts'
import { toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { Admission, Intent } from '../payments/admission.ts'
import type { Claimed } from '../payments/paying.ts'
import { Unpaid } from '../payments/unpaid.ts'
import type { CallParts } from './calls.ts'
import { freeTierOf, fundUrl, offerOf, type Plan } from './plan.ts'

/** A call that was let in: what it holds until it is settled or given back. */
export interface Ticket {
  readonly callId: string
  readonly plan: Plan
  /** What is held of the balance. */
  readonly amount: Micros
  /** A free call of the day is held. */
  readonly slot: boolean
  /** It was let in as one of the agent's free calls for life. */
  readonly allowed: boolean
  /** The hold is in the ledger, not in memory. */
  readonly durable: boolean
  readonly rail: 'free' | 'credits' | Claimed['payment']['rail']
  /** Another rail pays for it. */
  readonly paid: Claimed | null
  /** Milliseconds; the fuse windows of this instant count it. */
  readonly at: number
}

/** What the owner's limits and the purse are asked of a call. */
export const admissionOf = (
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
  payment: null,
  ...(tool.quota !== undefined && { quota: { most: tool.quota.callsPerDay } }),
  ...(expiresAt !== null && actsOutside(tool, request) && { intent: intentOf(request, callId) }),
})

/** It must never run again under its key, whatever became of the node that ran it. */
export const actsOutside = (tool: Plan['tool'], request: Plan['request']): boolean =>
  tool.effect === 'external' && request.idempotency !== null

/** Links of what a timer writes are relative: it knows no address of the station. */
const NO_ORIGIN = { publicUrl: '', deposits: true }

function intentOf(
  { idempotency, caller, ghost, requestId }: Plan['request'],
  callId: string,
): Intent {
  const error = new ServiceError('outcome_unknown', {
    call_id: callId,
    refunded: true,
    cost_usdc: 0,
  })
  const body = problem(error, NO_ORIGIN, `urn:request:${requestId}`)
  const response = JSON.stringify({ status: statusOf(error.code), body })
  return {
    hash: idempotency?.hash ?? '',
    keyId: caller.key?.id ?? null,
    ghost: ghost !== 'off',
    response,
  }
}

/** The actors a call names; ended ones lie in Postgres and are fetched first. */
export function touching({
  request,
}: Plan): AskOptions & { touch: NonNullable<AskOptions['touch']> } {
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
export function tell(parts: CallParts, plan: Plan, callId: string, error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error
  const { agentId } = plan.request.caller
  Object.assign(error.details, { call_id: callId, tool: plan.tool.slug })
  if (error.code !== 'payment_required' || agentId === null) return error
  const free = freeTierOf(parts, plan)
  const details = {
    ...error.details,
    detail: [...free.told, shortOf(plan, error.details)].join(' '),
    ...free.fields,
    price_usdc: toUsdc(plan.price ?? ZERO),
    agent_id: agentId,
    fund_url: fundUrl(parts, agentId),
  }
  return new Unpaid('payment_required', details, offerOf(parts, plan))
}

/** The sentence of a refusal for want of credits. */
function shortOf({ price }: Plan, { balance_usdc: balance, needed_usdc: needed }: Details): string {
  const cost = `This call costs ${Number(needed ?? toUsdc(price ?? ZERO))} USDC`
  return typeof balance === 'number' ? `${cost} and ${balance} USDC is available.` : `${cost}.`
}
