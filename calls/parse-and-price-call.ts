import type { JsonFields } from './tool-input-from-request-body.ts'
import { msUntilNextUtcDay } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { PaymentRequiredError } from '../payments/payment-required-error.ts'
import { addMicros, toUsdc, ZERO_MICROS, type Micros } from '../core/money.ts'
import type { ToolCatalogue } from '../tools/tool-catalogue.ts'
import type { Tool } from '../tools/define-tool.ts'
import type { CallDeps, CallRequest, ScheduledCall } from './call-request-and-reply-types.ts'
import { extractToolInputFromBody } from './tool-input-from-request-body.ts'
import { createPreflightContext } from './tool-context.ts'

/** A parsed call: its tool, validated input and price. */
export interface ValidatedPricedCall {
  readonly request: CallRequest
  readonly tool: Tool
  readonly input: JsonFields
  /** Free calls per day and address; null without any. */
  readonly freePerDay: number | null
  /** Price without a free call; null when it cannot be bought. */
  readonly price: Micros | null
  /** Number of lifetime free calls, and the price of such a call. */
  readonly allowance: { readonly calls: number; readonly price: Micros } | null
}

/** Parses and prices a call. Rejections cost and hold nothing. */
export async function parsePriceAndPreflightCall(
  parts: CallDeps,
  request: CallRequest,
): Promise<ValidatedPricedCall> {
  await loadNewlyRegisteredTool(parts, request)
  const plan = await parseAndPriceCall(parts, request)
  await preflightCall(parts, plan)
  return plan
}

/** Reads a tool that was registered a moment ago on another node. */
export async function loadNewlyRegisteredTool(
  { catalogue }: Pick<CallDeps, 'catalogue'>,
  { tool }: Pick<CallRequest, 'tool'>,
): Promise<void> {
  const loading = catalogue.load(tool)
  if (loading !== null) await loading
}

/** Parses and prices a request. Throws for invalid tools and input. */
export async function parseAndPriceCall(
  parts: CallDeps,
  request: CallRequest,
): Promise<ValidatedPricedCall> {
  const tool = parts.catalogue.get(request.tool)
  tool.community?.assertCallable(request.caller)
  const fields = extractToolInputFromBody(request.body, tool)
  const input = tool.normalise?.(fields) ?? fields
  const { agentId, visitorId, siteId } = request.caller
  const owner = agentId ?? siteId ?? visitorId
  const checking = parts.catalogue.validateInput(tool, input, owner)
  if (checking !== undefined) await checking
  return priceCall(parts, request, tool, input)
}

/** Throws for errors known before admission: missing key, missing provider. */
export async function preflightCall(parts: CallDeps, plan: ValidatedPricedCall): Promise<void> {
  assertCallerKey(plan)
  parts.failedVisits.assertBelowLimit(plan)
  const { request, tool, input } = plan
  if (tool.preflight !== undefined)
    await tool.preflight(input, createPreflightContext(parts, request))
}

function priceCall(
  parts: CallDeps,
  request: CallRequest,
  tool: Tool,
  input: JsonFields,
): ValidatedPricedCall {
  const isFree = tool.community?.isFreeFor(request.caller) === true
  const hasKey = request.caller.agentId !== null
  const listed = isFree ? ZERO_MICROS : parts.catalogue.priceOf(tool, input, hasKey)
  const { free } = tool
  if (request.run !== undefined) {
    const bare = isFree ? ZERO_MICROS : scheduledRunBasePrice(parts.catalogue, tool, input)
    const dear = priceOfRun(request.run, bare)
    const allowance = allowanceOf(tool, request.run.fee)
    return { request, tool, input, freePerDay: null, price: dear, allowance }
  }
  return {
    request,
    tool,
    input,
    freePerDay: free?.perDay ?? null,
    price: free === undefined ? listed : free.overage,
    allowance: allowanceOf(tool, ZERO_MICROS),
  }
}

/**
 * Price of a tool for a schedule run. A run has no address, so it has no daily free calls (decision
 * 93).
 */
export function scheduledRunBasePrice(
  catalogue: Pick<ToolCatalogue, 'priceOf'>,
  tool: Tool,
  input: JsonFields,
): Micros {
  const { free } = tool
  return free === undefined ? catalogue.priceOf(tool, input, true) : (free.overage ?? ZERO_MICROS)
}

const allowanceOf = ({ allowance }: Tool, price: Micros): ValidatedPricedCall['allowance'] =>
  allowance === undefined ? null : { calls: allowance.calls, price }

/** Throws `schedule_budget_exceeded` before anything is held. */
function priceOfRun({ scheduleId, fee, budget }: ScheduledCall, bare: Micros): Micros {
  const price = addMicros(bare, fee)
  if (price <= budget) return price
  throw new ServiceError('schedule_budget_exceeded', {
    schedule_id: scheduleId,
    price_usdc: toUsdc(price),
    budget_usdc: toUsdc(budget),
  })
}

/** Whether the call costs something without regard to free calls. */
export const isPricedWithoutFreeQuota = ({
  freePerDay,
  price: amount,
}: ValidatedPricedCall): boolean => freePerDay === null && amount !== null && amount > ZERO_MICROS

/** Throws 401 for a bad key, which is never treated as anonymous (decision 8). */
export function assertNoBadKey({ keyStatus }: CallRequest['caller']): void {
  if (keyStatus === 'invalid') throw new ServiceError('unauthenticated')
}

/** A bad key buys at the price or gets nothing; tasks and Backpacks need the owner's key (decision 8). */
function assertCallerKey(plan: ValidatedPricedCall): void {
  const { request, tool } = plan
  const { agentId, key } = request.caller
  if (tool.wholeAgent === true && key !== null && key.backpackId !== null)
    throw keyBoundError(tool, key.backpackId)
  if (agentId !== null) return
  if (!isPricedWithoutFreeQuota(plan)) assertNoBadKey(request.caller)
  if (request.taskId !== null || request.backpackId !== null)
    throw new ServiceError('unauthenticated')
  // Payment cannot replace the key: the tool acts for an agent.
  if (tool.keyRequired === true) {
    throw new ServiceError('unauthenticated', { tool: tool.slug })
  }
}

const keyBoundError = ({ slug }: Tool, backpackId: string): ServiceError =>
  new ServiceError('key_bound', {
    detail: `${slug} reports on all calls of the agent and needs a key without a Backpack.`,
    backpack_id: backpackId,
    tool: slug,
  })

/** The price of the call with the enabled payment methods. */
export function callPaymentOffer(
  parts: Pick<CallDeps, 'paying'>,
  { request, tool, price }: ValidatedPricedCall,
) {
  if (price === null || price === ZERO_MICROS) return null
  const item = {
    description: tool.description,
    price,
    deadlineMs: deadlineOf(tool),
    settlesAfterAnswer: isAnswerHeldUntilSettlement({ request, tool }),
  }
  return parts.paying.offer(request.door.path, item)
}

/**
 * Whether the answer of a call is kept until its payment has settled (decision 287): the builder of a tool is never
 * paid for a failure, and a caller without a key has no credits to get a payment back.
 */
export const isAnswerHeldUntilSettlement = ({
  request,
  tool,
}: Pick<ValidatedPricedCall, 'request' | 'tool'>): boolean =>
  tool.community !== undefined && request.caller.agentId === null

const deadlineOf = ({ timeoutMs }: Tool): number => Math.min(timeoutMs, LIMITS.toolDeadlineMs)

/** Maximum lifetime of a durable hold in milliseconds: settlement, then the tool. */
export const callHoldTimeoutMs = ({ tool }: ValidatedPricedCall): number =>
  deadlineOf(tool) + LIMITS.settleWaitMs + LIMITS.holdGraceMs

/** Builds the 402 of a call: price, payment options and funding address. */
export function createCallPaymentRequiredError(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
): ServiceError {
  const { caller } = plan.request
  const free = usedUpFreeCallDetails(parts, plan)
  const details = {
    detail: [
      ...(caller.keyStatus === 'invalid' ? [INVALID_KEY_NOTE] : []),
      ...free.notes,
      describeCost(plan),
    ].join(' '),
    call_id: callId,
    tool: plan.tool.slug,
    price_usdc: toUsdc(plan.price ?? ZERO_MICROS),
    ...free.fields,
    ...(caller.keyStatus === 'none' ? {} : { key_status: caller.keyStatus }),
    ...(caller.agentId === null
      ? { remedy: { action: 'onboard', method: 'POST', url: `${parts.publicUrl}/api/onboard` } }
      : { agent_id: caller.agentId, fund_url: agentFundingUrl(parts, caller.agentId) }),
  }
  return new PaymentRequiredError('payment_required', details, callPaymentOffer(parts, plan))
}

const INVALID_KEY_NOTE = 'The API key that was sent is unknown, revoked or expired.'
const describeCost = ({ price }: ValidatedPricedCall): string =>
  `This call costs ${toUsdc(price ?? ZERO_MICROS)} USDC.`

/** Used-up free calls, for a rejection: their number and reset time. */
export function usedUpFreeCallDetails(
  { clock }: Pick<CallDeps, 'clock'>,
  { freePerDay, tool }: ValidatedPricedCall,
) {
  if (freePerDay === null || freePerDay === 0) return { notes: [], fields: {} }
  const now = clock.now()
  const resets_at = new Date(now + msUntilNextUtcDay(now)).toISOString()
  return {
    notes: [
      `The ${freePerDay} free calls of ${tool.slug} a day for each address are used up: they return at 00:00 UTC.`,
    ],
    fields: { free_calls: { per_day: freePerDay, left: 0, resets_at } },
  }
}

export const agentFundingUrl = (parts: Pick<CallDeps, 'publicUrl'>, agentId: string): string =>
  `${parts.publicUrl}/fund/${agentId}`
