import type { JsonFields } from './tool-input.ts'
import { msUntilNextUtcDay } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { PaymentRequiredError } from '../payments/payment-required-error.ts'
import { addMicros, toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { ToolCatalogue } from '../tools/catalogue.ts'
import type { Tool } from '../tools/define-tool.ts'
import type { CallDeps, CallRequest, ScheduledRun } from './call-types.ts'
import { extractToolInput } from './tool-input.ts'
import { createPreflightContext } from './tool-context.ts'

/** A call that has been understood: its tool, its validated input and what it would cost. */
export interface CallPlan {
  readonly request: CallRequest
  readonly tool: Tool
  readonly input: JsonFields
  /** With a free slot of the day it costs nothing. */
  readonly freePerDay: number | null
  /** Without a free slot; null where there is nothing to buy. */
  readonly price: Micros | null
  /** While free calls for life are left: how many there are in all, and what such a call costs. */
  readonly allowance: { readonly calls: number; readonly price: Micros } | null
}

/** Reads and prices a call. What is refused here costs nothing and holds nothing. */
export async function planCall(parts: CallDeps, request: CallRequest): Promise<CallPlan> {
  const plan = parseCall(parts, request)
  await preflightCall(parts, plan)
  return plan
}

/** The tool of a request, its validated input and its price; throws for what is no call of a tool. */
export function parseCall(parts: CallDeps, request: CallRequest): CallPlan {
  const tool = parts.catalogue.get(request.tool)
  const fields = extractToolInput(request.body, tool)
  const input = tool.normalise?.(fields) ?? fields
  parts.catalogue.validateInput(tool, input)
  return priceCall(parts, request, tool, input)
}

/** Throws for what is known before anything is held: a key is missing, a provider is not there. */
export async function preflightCall(parts: CallDeps, plan: CallPlan): Promise<void> {
  assertCallerKey(plan)
  parts.failedVisits.assertBelowLimit(plan)
  const { request, tool, input } = plan
  await tool.preflight?.(input, createPreflightContext(parts, request, request.signal))
}

function priceCall(parts: CallDeps, request: CallRequest, tool: Tool, input: JsonFields): CallPlan {
  const listed = parts.catalogue.priceOf(tool, input, request.caller.agentId !== null)
  const { free } = tool
  if (request.run !== undefined) {
    const dear = priceOfRun(request.run, scheduledRunBasePrice(parts.catalogue, tool, input))
    const allowance = allowanceOf(tool, request.run.fee)
    return { request, tool, input, freePerDay: null, price: dear, allowance }
  }
  return {
    request,
    tool,
    input,
    freePerDay: free?.perDay ?? null,
    price: free === undefined ? listed : free.overage,
    allowance: allowanceOf(tool, ZERO),
  }
}

/** What a run of a schedule pays for its tool: it has no address, so no free calls of one (decision 93). */
export function scheduledRunBasePrice(
  catalogue: Pick<ToolCatalogue, 'priceOf'>,
  tool: Tool,
  input: JsonFields,
): Micros {
  const { free } = tool
  return free === undefined ? catalogue.priceOf(tool, input, true) : (free.overage ?? ZERO)
}

const allowanceOf = ({ allowance }: Tool, price: Micros): CallPlan['allowance'] =>
  allowance === undefined ? null : { calls: allowance.calls, price }

/** A schedule is bounded by its budget before anything is held. */
function priceOfRun({ scheduleId, fee, budget }: ScheduledRun, bare: Micros): Micros {
  const price = addMicros(bare, fee)
  if (price <= budget) return price
  throw new ServiceError('schedule_budget_exceeded', {
    schedule_id: scheduleId,
    price_usdc: toUsdc(price),
    budget_usdc: toUsdc(budget),
  })
}

/** Whether the call costs something whatever free slots are left. */
export const isAlwaysCharged = ({ freePerDay, price: amount }: CallPlan): boolean =>
  freePerDay === null && amount !== null && amount > ZERO

/** A bad key is never anonymous; a limit of an owner needs the owner's key (decision 8). */
function assertCallerKey(plan: CallPlan): void {
  const { request, tool } = plan
  const { agentId, key, keyStatus } = request.caller
  if (tool.wholeAgent === true && key !== null && key.backpackId !== null)
    throw keyBoundError(tool, key.backpackId)
  if (agentId !== null) return
  if (keyStatus === 'invalid' && !isAlwaysCharged(plan)) throw new ServiceError('unauthenticated')
  if (request.taskId !== null || request.backpackId !== null)
    throw new ServiceError('unauthenticated')
  // Paying would not help: it acts for somebody.
  if (tool.keyRequired === true) {
    throw new ServiceError('unauthenticated', { tool: tool.slug })
  }
}

const keyBoundError = ({ slug }: Tool, backpackId: string): ServiceError =>
  new ServiceError('key_bound', {
    detail: `${slug} tells about all calls of the agent: that takes a key that is bound to no Backpack.`,
    backpack_id: backpackId,
    tool: slug,
  })

/** What the call costs on the rails that are on. */
export function callPaymentOffer(
  parts: Pick<CallDeps, 'paying'>,
  { request, tool, price }: CallPlan,
) {
  if (price === null || price === ZERO) return null
  const item = { description: tool.description, price, deadlineMs: deadlineOf(tool) }
  return parts.paying.offer(request.door.path, item)
}

const deadlineOf = ({ timeoutMs }: Tool): number => Math.min(timeoutMs, LIMITS.toolDeadlineMs)

/** How long a durable hold may stand: the payment may have to settle first, then the tool runs. */
export const holdTimeoutMs = ({ tool }: CallPlan): number =>
  deadlineOf(tool) + LIMITS.settleWaitMs + LIMITS.holdGraceMs

/** The 402 of a call: what it costs, how to pay at once, and where to put money. */
export function callPaymentRequired(parts: CallDeps, plan: CallPlan, callId: string): ServiceError {
  const { caller } = plan.request
  const free = freeTierDetails(parts, plan)
  const details = {
    detail: [
      ...(caller.keyStatus === 'invalid' ? [INVALID_KEY_NOTE] : []),
      ...free.told,
      describeCost(plan),
    ].join(' '),
    call_id: callId,
    tool: plan.tool.slug,
    price_usdc: toUsdc(plan.price ?? ZERO),
    ...free.fields,
    ...(caller.keyStatus === 'none' ? {} : { key_status: caller.keyStatus }),
    ...(caller.agentId === null
      ? { remedy: { action: 'onboard', method: 'POST', url: `${parts.publicUrl}/api/onboard` } }
      : { agent_id: caller.agentId, fund_url: agentFundingUrl(parts, caller.agentId) }),
  }
  return new PaymentRequiredError('payment_required', details, callPaymentOffer(parts, plan))
}

const INVALID_KEY_NOTE = 'The API key that was sent is unknown, revoked or expired.'
const describeCost = ({ price }: CallPlan): string =>
  `This call costs ${toUsdc(price ?? ZERO)} USDC.`

/** What a refusal tells of free calls that are used up: how many there were, and when they return. */
export function freeTierDetails(
  { clock }: Pick<CallDeps, 'clock'>,
  { freePerDay, tool }: CallPlan,
) {
  if (freePerDay === null || freePerDay === 0) return { told: [], fields: {} }
  const now = clock.now()
  const resets_at = new Date(now + msUntilNextUtcDay(now)).toISOString()
  return {
    told: [
      `The ${freePerDay} free calls of ${tool.slug} a day for each address are used up: they return at 00:00 UTC.`,
    ],
    fields: { free_calls: { per_day: freePerDay, left: 0, resets_at } },
  }
}

export const agentFundingUrl = (parts: Pick<CallDeps, 'publicUrl'>, agentId: string): string =>
  `${parts.publicUrl}/fund/${agentId}`
