import type { AskOptions } from '../actors/command.ts'
import { ServiceError } from '../core/errors.ts'
import { toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { Admission } from '../payments/admission.ts'
import type { Claimed } from '../payments/paying.ts'
import { Unpaid } from '../payments/unpaid.ts'
import type { CallParts } from './calls.ts'
import { fundUrl, offerOf, type Plan } from './plan.ts'

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
})

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
  const details = {
    ...error.details,
    price_usdc: toUsdc(plan.price ?? ZERO),
    agent_id: agentId,
    fund_url: fundUrl(parts, agentId),
  }
  return new Unpaid('payment_required', details, offerOf(parts, plan))
}
