import type { CommandContext } from '../actors/aggregate-command-types.ts'
import { recordOwnershipOrMemoryReorganization } from '../actors/commands/lifetime-entitlement-commands.ts'
import { updateHiveWatchList } from '../actors/commands/update-hive-watch-list.ts'
import { httpStatusOf, type ErrorCode, type ServiceError } from '../core/errors.ts'
import { toExactJson } from '../core/json/exact.ts'
import { toProblemDocument } from '../core/problem-document.ts'
import { LIMITS } from '../core/limits.ts'
import { ZERO_MICROS, type Micros } from '../core/money.ts'
import type { TaskPassView } from '../domain/prepaid-task-passes.ts'
import {
  unstoredResponsePlaceholder,
  describeUnstoredResponseReason,
  type UnstoredResponseReason,
} from '../domain/unstored-response-reasons.ts'
import { describeProviderError } from './failures/provider.ts'
import { addFailedCallMoney, addRetainedPaymentDetails } from './failures/money.ts'
import { failCallCommand, settleCallCommand } from '../payments/commands/call-commands.ts'
import type { CallRow } from '../core/aggregate-commit-row-types.ts'
import {
  refundDailyFreeCall,
  releaseDailyFreeCall,
  consumeDailyFreeCall,
} from './visitor-daily-free-calls.ts'
import {
  addRefusalDetails,
  recordExplainedRefusal,
  listActorsToLoadForCall,
  type AdmittedCall,
} from './admitted-call.ts'
import type { CallDeps, CallReply } from './call-request-and-reply-types.ts'
import { storeAnonymousPaidCall } from './deliver-keyless-paid-call.ts'
import { chargeableCost } from './tool-context.ts'
import { retryWithFleetLoan } from './fleet-loan-for-call.ts'
import { toCallError } from './to-call-error.ts'
import { toCallReplyBody } from './call-reply-body.ts'
import type { ToolRunResult } from './run-tool.ts'

/** The row of a successful call and its reply, which exists once the row was made in the commit. */
export interface CallRecord {
  readonly row: (committed: CommittedCall) => CallRow
  /** With the transaction that paid it, if it is known. */
  readonly reply: (tx?: string | null) => CallReply
}

/** Builds the row of a successful call inside its commit, and the reply from it. */
export function createCallRecord(
  parts: CallDeps,
  ticket: AdmittedCall,
  outcome: ToolRunResult,
): CallRecord {
  const { plan, callId, paid } = ticket
  const cost = chargeableCost(outcome.traces, ticket.amount)
  let body: Record<string, unknown> = {}
  return {
    row({ balance, at, left = 0, pass = null, store = checkVisitorResponseSize }) {
      const own = toCallRow(ticket, outcome.ms, cost, at, null)
      const bare = pass === null ? own : { ...own, rail: 'pass' }
      body = toCallReplyBody(
        withAllowance(plan, outcome, left),
        bare,
        plan.request.ghost,
        balance,
        { key: parts.receiptKey, owner: callOwnerId(ticket) },
        { settlementUrl: paid === null ? null : parts.paying.settlementUrl(paid.ref), pass },
      )
      return {
        ...bare,
        response: storesResponse(ticket) ? toStoredResponse(ticket, cost, body, store) : null,
      }
    },
    reply(tx = paid?.tx ?? null) {
      const headers = paid === null ? {} : parts.paying.replyHeaders(paid.payment, paid.ref, tx)
      return { status: 200, body, headers, replayed: false, callId }
    },
  }
}

/** Commits the charge with all staged effects and returns the reply. */
export async function settleSuccessfulCall(
  parts: CallDeps,
  ticket: AdmittedCall,
  outcome: ToolRunResult,
): Promise<CallReply> {
  const { plan, callId } = ticket
  const { agentId, key } = plan.request.caller
  const { traces } = outcome
  const cost = chargeableCost(traces, ticket.amount)
  const { row, reply } = createCallRecord(parts, ticket, outcome)
  if (agentId === null) {
    const anonymous = (at: number) => row({ balance: null, at })
    if (ticket.paid === null) await settleVisitor(parts, ticket, outcome, anonymous)
    else return reply(await storeAnonymousPaidCall(parts, ticket, ticket.paid, outcome, anonymous))
  } else {
    const usedAt = ticket.slot ? await consumeSlotUnlessWaived(parts, ticket, outcome) : null
    const { rows, events, shares } = traces
    const ended = toEndCallback(ticket, outcome, null)
    const { promoTransferable } = parts
    const sharing = { shares, promoTransferable, ...callBounds(ticket, outcome) }
    const settlementInput = { callId, cost, key, row, rows, events, ended, ...sharing }
    const short = { agentId, callId, amount: cost, beside: false }
    await retryWithFleetLoan(parts, short, (lent) =>
      parts.actors.ask(
        agentId,
        settleCallCommand,
        { ...settlementInput, lent },
        listActorsToLoadForCall(plan),
      ),
    ).catch(async (error: unknown) => {
      if (usedAt !== null) await refundDailyFreeCall(parts, ticket, usedAt, null)
      throw error
    })
  }
  const { paid } = ticket
  if (paid !== null && agentId !== null) void parts.paying.notifyPayer(paid.ref)
  return reply()
}

/** The aggregate that stores the call. */
const callOwnerId = ({ plan, paid }: AdmittedCall): string => {
  const { agentId, visitorId } = plan.request.caller
  return agentId ?? paid?.ref.payer ?? visitorId
}

/** State after the commit: balance, time and lifetime free calls left. */
interface CommittedCall {
  readonly balance: Micros | null
  readonly at: number
  readonly left?: number
  readonly pass?: TaskPassView | null
  readonly store?: CountStoredBytes
}

/** Counts a stored free response. Returns the reason if it is not stored. */
type CountStoredBytes = (bytes: number) => UnstoredResponseReason | null

/** Anonymous callers are limited by their free calls; only the size is checked. */
const checkVisitorResponseSize: CountStoredBytes = (bytes) =>
  bytes > LIMITS.storedResponseMaxBytes ? 'too_large' : null

/** The response to store. Paid responses are always stored (decision 157). */
function toStoredResponse(
  { plan }: AdmittedCall,
  cost: Micros,
  body: Record<string, unknown>,
  store: CountStoredBytes,
): string {
  const response = toExactJson({ status: 200, body })
  const reason = cost > ZERO_MICROS ? null : store(Buffer.byteLength(response))
  if (reason === null) return response
  Object.assign(body['_meta'] as object, {
    kept: false,
    kept_note: describeUnstoredResponseReason(reason),
  })
  return unstoredResponsePlaceholder(reason, plan.request.requestId)
}

/** Lifetime and daily limits of the call. */
function callBounds({ plan, allowed }: AdmittedCall, { traces }: ToolRunResult) {
  const { allowance, tool } = plan
  const counts = tool.quota !== undefined && traces.waived === null
  return {
    ...(allowed && allowance !== null
      ? { allowance: { name: tool.slug, most: allowance.calls } }
      : {}),
    ...(counts ? { quota: { most: tool.quota.callsPerDay } } : {}),
  }
}

/** The number of free calls left is known only in the commit. */
const withAllowance = (
  { allowance }: AdmittedCall['plan'],
  outcome: ToolRunResult,
  left: number,
): ToolRunResult =>
  allowance === null
    ? outcome
    : { ...outcome, output: { ...outcome.output, free_tier_remaining: left } }

/** Releases all holds of a call, stores it as failed and returns the error for the caller. */
export async function settleFailedCall(
  parts: CallDeps,
  ticket: AdmittedCall,
  error: unknown,
  ms: number,
): Promise<ServiceError> {
  const { plan, callId } = ticket
  const { agentId } = plan.request.caller
  const callError = toPublicCallError(parts, ticket, error)
  const row = ({ at }: { at: number }): CallRow => ({
    ...toCallRow(ticket, ms, ZERO_MICROS, at, callError.code),
    ...toIdempotencyColumns(parts, ticket, callError),
  })
  if (agentId === null && ticket.paid !== null) {
    const left = await parts.paying.release(ticket.paid.ref, callId, (at) => row({ at }))
    if (left === 'kept') addRetainedPaymentDetails(parts, callError, ticket.paid.ref)
  } else if (agentId === null) {
    await refundDailyFreeCall(parts, ticket, null, row({ at: ticket.at }))
  } else {
    if (ticket.slot) releaseDailyFreeCall(parts, plan, callId)
    const ended = toEndCallback(ticket, null, callError)
    await parts.actors.ask(
      agentId,
      failCallCommand,
      { callId, row, ended },
      listActorsToLoadForCall(plan),
    )
    // Credit a settled payment before the caller gets the error.
    if (ticket.paid !== null) await parts.paying.notifyPayer(ticket.paid.ref)
  }
  return callError
}

/** Effects that the tool and the schedule add to the commit. */
function toEndCallback(
  { plan }: AdmittedCall,
  outcome: ToolRunResult | null,
  error: ServiceError | null,
) {
  const { run } = plan.request
  const watches = outcome?.traces.watches ?? []
  const tallies = outcome?.traces.tallies ?? []
  if (run === undefined && watches.length + tallies.length === 0) return undefined
  return (ctx: CommandContext, call: CallRow) => {
    for (const change of watches) updateHiveWatchList(ctx, change)
    for (const change of tallies) recordOwnershipOrMemoryReorganization(ctx, change)
    run?.onEnded(ctx, { call, output: outcome?.output ?? null, error })
  }
}

/** Errors unrelated to the request, and limits: the same key may be retried. */
const SAME_KEY_RETRYABLE_ERRORS: ReadonlySet<ErrorCode> = new Set([
  'cancelled',
  'unavailable',
  'overloaded',
  'payment_required',
  'cash_required',
  'tool_unavailable',
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

/** Whether the response is stored for repetitions, by key or by payment. */
const storesResponse = ({ plan, paid }: AdmittedCall): boolean =>
  plan.request.idempotency !== null || paid !== null

function toIdempotencyColumns(
  parts: CallDeps,
  ticket: AdmittedCall,
  callError: ServiceError,
): Partial<CallRow> {
  if (!storesResponse(ticket)) return {}
  if (SAME_KEY_RETRYABLE_ERRORS.has(callError.code))
    return { idempotencyKey: null, requestHash: null }
  const body = toProblemDocument(callError, parts, `urn:request:${ticket.plan.request.requestId}`)
  return { response: JSON.stringify({ status: httpStatusOf(callError.code), body }) }
}

function toPublicCallError(parts: CallDeps, ticket: AdmittedCall, error: unknown): ServiceError {
  const { callId, plan } = ticket
  const callError = toCallError(parts, `tool ${plan.tool.slug} failed`, error)
  recordExplainedRefusal(parts, plan, callId, callError)
  addRefusalDetails(parts, plan, callId, callError)
  Object.assign(callError.details, providerErrorDetails(callError))
  addFailedCallMoney(parts, ticket, callError)
  return callError
}

/** Descriptions of provider failures, the same for all tools. */
function providerErrorDetails(callError: ServiceError): object {
  const failure = describeProviderError(callError)
  if (failure === null) return {}
  const { summary, advice, kind } = failure
  return { provider_kind: kind, detail: `${summary} Nothing was charged. ${advice}` }
}

export function toCallRow(
  { callId, plan, rail, paid }: AdmittedCall,
  ms: number,
  cost: Micros,
  at: number,
  errorCode: ErrorCode | null,
): CallRow {
  const { caller, taskId, backpackId, ghost } = plan.request
  // Without an API key the payment identifies the request, and the payer owns it.
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

async function settleVisitor(
  parts: CallDeps,
  ticket: AdmittedCall,
  { traces }: ToolRunResult,
  row: (at: number) => CallRow,
): Promise<void> {
  const { slot } = ticket
  const { rows, events } = traces
  if (slot && traces.waived === null) {
    await consumeDailyFreeCall(parts, ticket, { row, rows, events })
  } else {
    await refundDailyFreeCall(parts, ticket, null, row(ticket.at))
  }
}

/** Uses the held free call; a waived call returns it. */
async function consumeSlotUnlessWaived(
  parts: CallDeps,
  ticket: AdmittedCall,
  { traces }: ToolRunResult,
): Promise<number | null> {
  if (traces.waived === null) return consumeDailyFreeCall(parts, ticket, null)
  releaseDailyFreeCall(parts, ticket.plan, ticket.callId)
  return null
}
