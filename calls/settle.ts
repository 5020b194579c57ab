import type { Turn } from '../actors/command.ts'
import { changeTally } from '../actors/commands/tally.ts'
import { changeWatches } from '../actors/commands/watches.ts'
import { problem, statusOf, type ErrorCode, type ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { ZERO, type Micros } from '../core/money.ts'
import { keptInstead, whyNotKept, type NotKept } from '../core/not-kept.ts'
import { failureTold } from '../core/provider-failure.ts'
import { callFail, callSettle } from '../payments/commands/call.ts'
import type { CallRow } from '../core/rows.ts'
import type { Claimed } from '../payments/paying.ts'
import { freeSlot, giveSlotBack, useSlot } from './slots.ts'
import { tell, touching, type Ticket } from './ticket.ts'
import type { CallParts, CallReply } from './calls.ts'
import { costOf } from './context.ts'
import { withDraws } from './draw.ts'
import { expected } from './expected.ts'
import { replyBody } from './reply.ts'
import type { Outcome } from './run.ts'

/** Takes the price with everything the tool staged, in one commit, and answers. */
export async function settle(
  parts: CallParts,
  ticket: Ticket,
  outcome: Outcome,
): Promise<CallReply> {
  const { plan, callId } = ticket
  const { agentId, key } = plan.request.caller
  const { traces } = outcome
  const cost = costOf(traces, ticket.amount)
  const settlement = ticket.paid === null ? null : parts.paying.settlementUrl(ticket.paid.ref)
  let body: Record<string, unknown> = {}
  const row = ({ balance, at, left = 0, store = storable }: Landed): CallRow => {
    const bare = callRow(ticket, outcome.ms, cost, at, null)
    body = replyBody(
      withAllowance(plan, outcome, left),
      bare,
      plan.request.ghost,
      balance,
      { key: parts.receiptKey, owner: ownerOf(ticket) },
      settlement,
    )
    return { ...bare, response: keeps(ticket) ? kept(ticket, cost, body, store) : null }
  }
  if (agentId === null) {
    const anonymous = (at: number) => row({ balance: null, at })
    if (ticket.paid === null) await settleVisitor(parts, ticket, outcome, anonymous)
    else await deliver(parts, ticket, ticket.paid.ref, outcome, anonymous)
  } else {
    const usedAt = ticket.slot ? await useUnlessWaived(parts, ticket, outcome) : null
    const { rows, events, shares } = traces
    const ended = endingOf(ticket, outcome, null)
    const { promoTransferable } = parts
    const sharing = { shares, promoTransferable, ...boundsOf(ticket, outcome) }
    const asked = { callId, cost, key, row, rows, events, ended, ...sharing }
    const short = { agentId, callId, amount: cost, beside: false }
    await withDraws(parts, short, (lent) =>
      parts.actors.ask(agentId, callSettle, { ...asked, lent }, touching(plan)),
    ).catch(async (error: unknown) => {
      if (usedAt !== null) await freeSlot(parts, ticket, usedAt, null)
      throw error
    })
  }
  const { paid } = ticket
  if (paid !== null && agentId !== null) void parts.paying.told(paid.ref)
  const headers = paid === null ? {} : parts.paying.replyHeaders(paid.payment, paid.ref, paid.tx)
  return { status: 200, body, headers, replayed: false, callId }
}

/** In whose commit the call is kept. */
const ownerOf = ({ plan, paid }: Ticket): string => {
  const { agentId, visitorId } = plan.request.caller
  return agentId ?? paid?.ref.payer ?? visitorId
}

/** What the commit tells of a call: the balance it leaves, and the free calls for life. */
interface Landed {
  readonly balance: Micros | null
  readonly at: number
  readonly left?: number
  readonly store?: Store
}

/** Counts an answer that cost nothing; says why it is not kept. */
type Store = (bytes: number) => NotKept | null

/** Callers without a key have their free calls to bound how many there are. */
const storable: Store = (bytes) => (bytes > LIMITS.keptAnswerBytes ? 'too_large' : null)

/** The answer as it is kept; what is paid for is always kept whole (decision 157). */
function kept({ plan }: Ticket, cost: Micros, body: Record<string, unknown>, store: Store): string {
  const response = JSON.stringify({ status: 200, body })
  const reason = cost > ZERO ? null : store(Buffer.byteLength(response))
  if (reason === null) return response
  Object.assign(body['_meta'] as object, { kept: false, kept_note: whyNotKept(reason) })
  return keptInstead(reason, plan.request.requestId)
}

/** How often the agent may do so, in its life and in a day. */
function boundsOf({ plan, allowed }: Ticket, { traces }: Outcome) {
  const { allowance, tool } = plan
  const counts = tool.quota !== undefined && traces.waived === null
  return {
    ...(allowed && allowance !== null
      ? { allowance: { name: tool.slug, most: allowance.calls } }
      : {}),
    ...(counts ? { quota: { most: tool.quota.callsPerDay } } : {}),
  }
}

/** How many free calls are left is known with the commit alone. */
const withAllowance = ({ allowance }: Ticket['plan'], outcome: Outcome, left: number): Outcome =>
  allowance === null
    ? outcome
    : { ...outcome, output: { ...outcome.output, free_tier_remaining: left } }

/** Lets everything the call held go, keeps the call as failed, and says so in the error. */
export async function fail(
  parts: CallParts,
  ticket: Ticket,
  error: unknown,
  ms: number,
): Promise<ServiceError> {
  const { plan, callId } = ticket
  const { agentId } = plan.request.caller
  const told = publicError(parts, ticket, error)
  const row = ({ at }: { at: number }): CallRow => ({
    ...callRow(ticket, ms, ZERO, at, told.code),
    ...answerOf(parts, ticket, told),
  })
  if (agentId === null && ticket.paid !== null) {
    const left = await parts.paying.release(ticket.paid.ref, callId, (at) => row({ at }))
    if (left === 'kept') tellKept(parts, told, ticket.paid.ref)
  } else if (agentId === null) {
    await freeSlot(parts, ticket, null, row({ at: ticket.at }))
  } else {
    if (ticket.slot) giveSlotBack(parts, plan, callId)
    const ended = endingOf(ticket, null, told)
    await parts.actors.ask(agentId, callFail, { callId, row, ended }, touching(plan))
    // A payment that has settled is credited before the caller hears of the failure.
    if (ticket.paid !== null) await parts.paying.told(ticket.paid.ref)
  }
  return told
}

/** What the tool, and the schedule that made the call, add to its last commit. */
function endingOf({ plan }: Ticket, outcome: Outcome | null, error: ServiceError | null) {
  const { run } = plan.request
  const watches = outcome?.traces.watches ?? []
  const tallies = outcome?.traces.tallies ?? []
  if (run === undefined && watches.length + tallies.length === 0) return undefined
  return (turn: Turn, call: CallRow) => {
    for (const change of watches) changeWatches(turn, change)
    for (const change of tallies) changeTally(turn, change)
    run?.ended(turn, { call, output: outcome?.output ?? null, error })
  }
}

/** Settled and nothing delivered: whoever is not told so would pay a second time. */
function tellKept(parts: CallParts, told: ServiceError, ref: Claimed['ref']): void {
  delete told.details['cost_usdc']
  // It says that nothing was charged.
  if ('provider_kind' in told.details) delete told.details.detail
  Object.assign(told.details, {
    refunded: false,
    settlement_id: ref.settlement,
    settlement_url: parts.paying.settlementUrl(ref),
    remedy: { action: 'repeat_with_the_same_payment' },
  })
}

/** Failures that say nothing about the request, and limits: the same key may try again. */
const PASSING: ReadonlySet<ErrorCode> = new Set([
  'cancelled',
  'unavailable',
  'overloaded',
  'payment_required',
  'quota_exceeded',
  'hive_write_pending',
  'key_cap_exceeded',
  'task_budget_exceeded',
  'task_not_active',
  'provider_budget_exhausted',
  'model_share_exhausted',
  'price_unavailable',
  'upstream_rate_limited',
  'sandbox_busy',
  'sandbox_unavailable',
  'browser_busy',
  'FUSE_TRIPPED',
  'REVOKED',
  'EXPIRED',
])

/** The answer is kept for whoever repeats the request, by its key or by its payment. */
const keeps = ({ plan, paid }: Ticket): boolean =>
  plan.request.idempotency !== null || paid !== null

function answerOf(parts: CallParts, ticket: Ticket, told: ServiceError): Partial<CallRow> {
  if (!keeps(ticket)) return {}
  if (PASSING.has(told.code)) return { idempotencyKey: null, requestHash: null }
  const body = problem(told, parts, `urn:request:${ticket.plan.request.requestId}`)
  return { response: JSON.stringify({ status: statusOf(told.code), body }) }
}

function publicError(parts: CallParts, { callId, plan }: Ticket, error: unknown): ServiceError {
  const told = expected(parts, `tool ${plan.tool.slug} failed`, error)
  tell(parts, plan, callId, told)
  Object.assign(told.details, { refunded: true, cost_usdc: 0, ...plainly(told) })
  return told
}

/** Failures of providers are told alike by every tool. */
function plainly(told: ServiceError): object {
  const failure = failureTold(told)
  if (failure === null) return {}
  const { happened, advice, kind } = failure
  return { provider_kind: kind, detail: `${happened} Nothing was charged. ${advice}` }
}

export function callRow(
  { callId, plan, rail, paid }: Ticket,
  ms: number,
  cost: Micros,
  at: number,
  errorCode: ErrorCode | null,
): CallRow {
  const { caller, taskId, backpackId, ghost } = plan.request
  // Without an API key the payment is what a request is known by: its owner is the payer.
  const idempotency = paid !== null && caller.agentId === null ? null : plan.request.idempotency
  return {
    callId,
    agentId: caller.agentId,
    keyId: caller.key?.id ?? null,
    operation: 'refuel',
    tool: plan.tool.slug,
    rail,
    cost,
    status: errorCode === null ? 'ok' : 'failed',
    errorCode,
    ms,
    taskId,
    backpackId,
    ghost: ghost !== 'off',
    idempotencyKey: idempotency?.key ?? null,
    requestHash: idempotency?.hash ?? null,
    response: null,
    at,
  }
}

/** A caller without a key: the call is kept with its payment. */
function deliver(
  parts: CallParts,
  { callId, amount }: Ticket,
  ref: Claimed['ref'],
  { traces }: Outcome,
  row: (at: number) => CallRow,
): Promise<void> {
  const { rows, events } = traces
  const shares = traces.shares.map((share) => ({ ...share, callId }))
  // A call that was waived costs nothing: its payment is free again.
  if (costOf(traces, amount) === ZERO)
    return parts.paying.release(ref, callId, row).then(() => undefined)
  return parts.paying.deliver({ ref, callId, calls: [row], rows, events, shares })
}

async function settleVisitor(
  parts: CallParts,
  ticket: Ticket,
  { traces }: Outcome,
  row: (at: number) => CallRow,
): Promise<void> {
  const { slot } = ticket
  const { rows, events } = traces
  if (slot && traces.waived === null) {
    await useSlot(parts, ticket, { row, rows, events })
  } else {
    await freeSlot(parts, ticket, null, row(ticket.at))
  }
}

/** Uses the held slot up; a call that was waived gives it back instead. */
async function useUnlessWaived(
  parts: CallParts,
  ticket: Ticket,
  { traces }: Outcome,
): Promise<number | null> {
  if (traces.waived === null) return useSlot(parts, ticket, null)
  giveSlotBack(parts, ticket.plan, ticket.callId)
  return null
}
