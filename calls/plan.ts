import type { AnyJson } from './fields.ts'
import { untilNextDay } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { Unpaid } from '../payments/unpaid.ts'
import { add, toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { Catalogue } from '../tools/catalogue.ts'
import type { Tool } from '../tools/define.ts'
import type { CallParts, CallRequest, ScheduledRun } from './calls.ts'
import { toolFields } from './fields.ts'
import { askingOf } from './context.ts'

/** A call that has been understood: its tool, its validated input and what it would cost. */
export interface Plan {
  readonly request: CallRequest
  readonly tool: Tool
  readonly input: AnyJson
  /** With a free slot of the day it costs nothing. */
  readonly freePerDay: number | null
  /** Without a free slot; null where there is nothing to buy. */
  readonly price: Micros | null
  /** While free calls for life are left: how many there are in all, and what such a call costs. */
  readonly allowance: { readonly calls: number; readonly price: Micros } | null
}

/** Reads and prices a call. What is refused here costs nothing and holds nothing. */
export async function planCall(parts: CallParts, request: CallRequest): Promise<Plan> {
  const plan = readCall(parts, request)
  await checkPlan(parts, plan)
  return plan
}

/** The tool of a request, its validated input and its price; throws for what is no call of a tool. */
export function readCall(parts: CallParts, request: CallRequest): Plan {
  const tool = parts.catalogue.get(request.tool)
  const fields = toolFields(request.body, tool)
  const input = tool.normalise?.(fields) ?? fields
  parts.catalogue.validateInput(tool, input)
  return price(parts, request, tool, input)
}

/** Throws for what is known before anything is held: a key is missing, a provider is not there. */
export async function checkPlan(parts: CallParts, plan: Plan): Promise<void> {
  demandKey(plan)
  parts.failedVisits.demand(plan)
  const { request, tool, input } = plan
  await tool.preflight?.(input, askingOf(parts, request, request.signal))
}

function price(parts: CallParts, request: CallRequest, tool: Tool, input: AnyJson): Plan {
  const listed = parts.catalogue.priceOf(tool, input, request.caller.agentId !== null)
  const { free } = tool
  if (request.run !== undefined) {
    const dear = priceOfRun(request.run, bareRunPrice(parts.catalogue, tool, input))
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
export function bareRunPrice(
  catalogue: Pick<Catalogue, 'priceOf'>,
  tool: Tool,
  input: AnyJson,
): Micros {
  const { free } = tool
  return free === undefined ? catalogue.priceOf(tool, input, true) : (free.overage ?? ZERO)
}

const allowanceOf = ({ allowance }: Tool, price: Micros): Plan['allowance'] =>
  allowance === undefined ? null : { calls: allowance.calls, price }

/** A schedule is bounded by its budget before anything is held. */
function priceOfRun({ scheduleId, fee, budget }: ScheduledRun, bare: Micros): Micros {
  const price = add(bare, fee)
  if (price <= budget) return price
  throw new ServiceError('schedule_budget_exceeded', {
    schedule_id: scheduleId,
    price_usdc: toUsdc(price),
    budget_usdc: toUsdc(budget),
  })
}

/** Whether the call costs something whatever free slots are left. */
export const isPaid = ({ freePerDay, price: amount }: Plan): boolean =>
  freePerDay === null && amount !== null && amount > ZERO

/** A bad key is never anonymous; a limit of an owner needs the owner's key (decision 8). */
function demandKey(plan: Plan): void {
  const { request, tool } = plan
  const { agentId, key, keyStatus } = request.caller
  if (tool.wholeAgent === true && key !== null && key.backpackId !== null)
    throw seesTooMuch(tool, key.backpackId)
  if (agentId !== null) return
  if (keyStatus === 'invalid' && !isPaid(plan)) throw new ServiceError('unauthenticated')
  if (request.taskId !== null || request.backpackId !== null)
    throw new ServiceError('unauthenticated')
  // Paying would not help: it acts for somebody.
  if (tool.keyRequired === true) {
    throw new ServiceError('unauthenticated', { tool: tool.slug })
  }
}

const seesTooMuch = ({ slug }: Tool, backpackId: string): ServiceError =>
  new ServiceError('key_bound', {
    detail: `${slug} tells about all calls of the agent: that takes a key that is bound to no Backpack.`,
    backpack_id: backpackId,
    tool: slug,
  })

/** What the call costs on the rails that are on. */
export function offerOf(parts: Pick<CallParts, 'paying'>, { request, tool, price }: Plan) {
  if (price === null || price === ZERO) return null
  const item = { description: tool.description, price, deadlineMs: deadlineOf(tool) }
  return parts.paying.offer(request.door.path, item)
}

const deadlineOf = ({ timeoutMs }: Tool): number => Math.min(timeoutMs, LIMITS.toolDeadlineMs)

/** How long a durable hold may stand: the payment may have to settle first, then the tool runs. */
export const patienceOf = ({ tool }: Plan): number =>
  deadlineOf(tool) + LIMITS.settleWaitMs + LIMITS.holdGraceMs

/** The 402 of a call: what it costs, how to pay at once, and where to put money. */
export function paymentRequired(parts: CallParts, plan: Plan, callId: string): ServiceError {
  const { caller } = plan.request
  const free = freeTierOf(parts, plan)
  const details = {
    detail: [...(caller.keyStatus === 'invalid' ? [BAD_KEY] : []), ...free.told, costOf(plan)].join(
      ' ',
    ),
    call_id: callId,
    tool: plan.tool.slug,
    price_usdc: toUsdc(plan.price ?? ZERO),
    ...free.fields,
    ...(caller.keyStatus === 'none' ? {} : { key_status: caller.keyStatus }),
    ...(caller.agentId === null
      ? { remedy: { action: 'onboard', method: 'POST', url: `${parts.publicUrl}/api/onboard` } }
      : { agent_id: caller.agentId, fund_url: fundUrl(parts, caller.agentId) }),
  }
  return new Unpaid('payment_required', details, offerOf(parts, plan))
}

const BAD_KEY = 'The API key that was sent is unknown, revoked or expired.'
const costOf = ({ price }: Plan): string => `This call costs ${toUsdc(price ?? ZERO)} USDC.`

/** What a refusal tells of free calls that are used up: how many there were, and when they return. */
export function freeTierOf({ clock }: Pick<CallParts, 'clock'>, { freePerDay, tool }: Plan) {
  if (freePerDay === null || freePerDay === 0) return { told: [], fields: {} }
  const now = clock.now()
  const resets_at = new Date(now + untilNextDay(now)).toISOString()
  return {
    told: [
      `The ${freePerDay} free calls of ${tool.slug} a day for each address are used up: they return at 00:00 UTC.`,
    ],
    fields: { free_calls: { per_day: freePerDay, left: 0, resets_at } },
  }
}

export const fundUrl = (parts: Pick<CallParts, 'publicUrl'>, agentId: string): string =>
  `${parts.publicUrl}/fund/${agentId}`
