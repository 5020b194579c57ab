import type { CallRequest, CallService } from '../../calls/call-request-and-reply-types.ts'
import {
  extractToolInputFromBody,
  type JsonFields,
} from '../../calls/tool-input-from-request-body.ts'
import { scheduledRunBasePrice } from '../../calls/parse-and-price-call.ts'
import { invalidInputError, ServiceError, httpStatusOf } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { addMicros, toUsdc, type Micros } from '../../core/money.ts'
import { MAX_SCHEDULE_RUN_BUDGET, SCHEDULE_RUN_FEE } from '../../domain/pricing.ts'
import type { ToolCatalogue } from '../../tools/tool-catalogue.ts'
import type { Tool } from '../../tools/define-tool.ts'

/** The validated call that every run of a schedule makes, and its current price. */
export interface ValidatedScheduledCall {
  readonly tool: Tool
  readonly params: JsonFields
  readonly price: Micros
}

/**
 * Validates what a schedule runs: the tool, its fields, and a maximum price per run. Throws `invalid_input`
 * or `not_found`.
 */
export async function toValidatedScheduledCall(
  catalogue: ToolCatalogue,
  slug: string,
  params: JsonFields,
  agentId: string,
): Promise<ValidatedScheduledCall> {
  if (Buffer.byteLength(JSON.stringify(params)) > LIMITS.scheduleParamsBytes) {
    throw invalidInputError(
      '/params',
      `must have at most ${LIMITS.scheduleParamsBytes} bytes as JSON`,
    )
  }
  const tool = catalogue.get(slug)
  tool.community?.assertCallable({ agentId })
  const { fields, input } = await parseRunInput(catalogue, tool, params, agentId)
  const price = addMicros(scheduledRunBasePrice(catalogue, tool, input), SCHEDULE_RUN_FEE)
  if (price > MAX_SCHEDULE_RUN_BUDGET) throw runTooExpensiveError(tool, price)
  return { tool, params: fields, price }
}

async function parseRunInput(
  catalogue: ToolCatalogue,
  tool: Tool,
  params: JsonFields,
  agentId: string,
) {
  try {
    const fields = extractToolInputFromBody(params, tool)
    const input = tool.normalise?.(fields) ?? fields
    await catalogue.validateInput(tool, input, agentId)
    return { fields, input }
  } catch (error) {
    throw withinParams(error)
  }
}

/** Throws when the budget is below the price of one run. */
export function assertBudgetCoversScheduledRun(
  { tool, price }: Pick<ValidatedScheduledCall, 'tool' | 'price'>,
  budget: Micros,
) {
  if (budget >= price) return
  const detail = `must be at least ${toUsdc(price)}: ${describeRunCost(tool, price)}`
  throw runPriceError('/budget_usdc', detail, tool, price)
}

function runTooExpensiveError(tool: Tool, price: Micros): ServiceError {
  const maxBudgetUsdc = toUsdc(MAX_SCHEDULE_RUN_BUDGET)
  const detail = `cannot be scheduled: ${describeRunCost(tool, price)}, and a run may cost at most ${maxBudgetUsdc}`
  return runPriceError('/tool', detail, tool, price)
}

const describeRunCost = ({ slug }: Tool, price: Micros): string =>
  `a run of ${slug} costs ${toUsdc(price)} USDC, ${toUsdc(SCHEDULE_RUN_FEE)} of it for the run`

const runPriceError = (pointer: string, detail: string, tool: Tool, price: Micros): ServiceError =>
  new ServiceError('invalid_input', {
    detail: `${pointer} ${detail}`,
    errors: [{ pointer, detail }],
    tool: tool.slug,
    price_usdc: toUsdc(price),
  })

/** Codes that refuse a run now but may pass later, so they do not refuse the schedule. */
const TRANSIENT_ERROR_CODES = new Set(['feature_taken'])

/**
 * Throws what the tool would throw at every run, such as a blocked address or a missing memory. A provider
 * that is missing or busy now refuses no schedule.
 */
export async function assertToolSchedulable(
  calls: Pick<CallService, 'check'>,
  { tool, params, price }: ValidatedScheduledCall,
  frame: CallRequest,
): Promise<void> {
  const run = { scheduleId: '', fee: SCHEDULE_RUN_FEE, budget: price, onEnded: () => {} }
  const callRequest = {
    tool: tool.slug,
    body: params,
    idempotency: null,
    taskId: null,
    backpackId: null,
  }
  try {
    await calls.check({ ...frame, ...callRequest, ghost: 'off', run })
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    if (httpStatusOf(error.code) < 429 && !TRANSIENT_ERROR_CODES.has(error.code))
      throw withinParams(error)
  }
}

/** Moves the pointers of a tool's error below `/params`, where the request has its fields. */
function withinParams(error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error
  const { code, details } = error
  const misfits = (details['errors'] ?? []) as readonly { pointer: string; detail: string }[]
  if (misfits.length === 0) return error
  const errors = misfits.map(({ pointer, detail }) => ({ pointer: `/params${pointer}`, detail }))
  const detail = errors.map((misfit) => `${misfit.pointer} ${misfit.detail}`)[0]
  return new ServiceError(code, { errors, ...(detail === undefined ? {} : { detail }) })
}
