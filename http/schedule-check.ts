import type { CallRequest, Calls } from '../calls/calls.ts'
import { toolFields, type AnyJson } from '../calls/fields.ts'
import { bareRunPrice } from '../calls/plan.ts'
import { invalid, ServiceError, statusOf } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { add, toUsdc, type Micros } from '../core/money.ts'
import { LARGEST_RUN_BUDGET, SCHEDULE_RUN } from '../core/prices.ts'
import type { Catalogue } from '../tools/catalogue.ts'
import type { Tool } from '../tools/define.ts'

/** What every run of a schedule asks, and what one costs by the list of today. */
export interface RunAsked {
  readonly tool: Tool
  readonly params: AnyJson
  readonly price: Micros
}

/** Reads what a schedule is to run: a tool that exists, fields that it takes, a price a run may have. */
export function runAsked(catalogue: Catalogue, slug: string, params: AnyJson): RunAsked {
  if (Buffer.byteLength(JSON.stringify(params)) > LIMITS.scheduleParamsBytes) {
    throw invalid('/params', `must have at most ${LIMITS.scheduleParamsBytes} bytes as JSON`)
  }
  const tool = catalogue.get(slug)
  const { fields, input } = inputOf(catalogue, tool, params)
  const price = add(bareRunPrice(catalogue, tool, input), SCHEDULE_RUN)
  if (price > LARGEST_RUN_BUDGET) throw tooDear(tool, price)
  return { tool, params: fields, price }
}

function inputOf(catalogue: Catalogue, tool: Tool, params: AnyJson) {
  try {
    const fields = toolFields(params, tool)
    const input = tool.normalise?.(fields) ?? fields
    catalogue.validateInput(tool, input)
    return { fields, input }
  } catch (error) {
    throw withinParams(error)
  }
}

/** A budget below the price of a run would refuse every run. */
export function demandBudget({ tool, price }: Pick<RunAsked, 'tool' | 'price'>, budget: Micros) {
  if (budget >= price) return
  const detail = `must be at least ${toUsdc(price)}: ${costOf(tool, price)}`
  throw refusal('/budget_usdc', detail, tool, price)
}

function tooDear(tool: Tool, price: Micros): ServiceError {
  const most = toUsdc(LARGEST_RUN_BUDGET)
  const detail = `cannot be scheduled: ${costOf(tool, price)}, and a run may cost at most ${most}`
  return refusal('/tool', detail, tool, price)
}

const costOf = ({ slug }: Tool, price: Micros): string =>
  `a run of ${slug} costs ${toUsdc(price)} USDC, ${toUsdc(SCHEDULE_RUN)} of it for the run`

const refusal = (pointer: string, detail: string, tool: Tool, price: Micros): ServiceError =>
  new ServiceError('invalid_input', {
    detail: `${pointer} ${detail}`,
    errors: [{ pointer, detail }],
    tool: tool.slug,
    price_usdc: toUsdc(price),
  })

/** What refuses a run now, and need not refuse the next one. */
const PASSING = new Set(['feature_taken'])

/**
 * Refuses what the tool itself would refuse at every run: an address that may not be fetched, a memory
 * that is not there. A provider that is missing or busy now refuses no schedule.
 */
export async function demandRunnable(
  calls: Pick<Calls, 'check'>,
  { tool, params, price }: RunAsked,
  frame: CallRequest,
): Promise<void> {
  const run = { scheduleId: '', fee: SCHEDULE_RUN, budget: price, ended: () => {} }
  const asked = { tool: tool.slug, body: params, idempotency: null, taskId: null, backpackId: null }
  try {
    await calls.check({ ...frame, ...asked, ghost: 'off', run })
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    if (statusOf(error.code) < 429 && !PASSING.has(error.code)) throw withinParams(error)
  }
}

/** The tool knows its fields, not where the request has them. */
function withinParams(error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error
  const { code, details } = error
  const misfits = (details['errors'] ?? []) as readonly { pointer: string; detail: string }[]
  if (misfits.length === 0) return error
  const errors = misfits.map(({ pointer, detail }) => ({ pointer: `/params${pointer}`, detail }))
  const detail = errors.map((misfit) => `${misfit.pointer} ${misfit.detail}`)[0]
  return new ServiceError(code, { errors, ...(detail === undefined ? {} : { detail }) })
}
