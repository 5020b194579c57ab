import { ServiceError } from '../core/errors.ts'
import { toExactJson } from '../core/json/exact.ts'
import { isJsonSizeBoundWithin } from '../core/json/size-bound.ts'
import { LIMITS } from '../core/limits.ts'
import { smallerOfTwoMicros, subtractMicros, ZERO_MICROS } from '../core/money.ts'
import { addSharedAbortListener } from '../core/concurrency/shared-abort-listener.ts'
import type { Tool, ToolStreamEvent } from '../tools/define-tool.ts'
import type { AdmittedCall } from './admitted-call.ts'
import type { ValidatedPricedCall } from './parse-and-price-call.ts'
import type { CallDeps, HiveExcerpt } from './call-request-and-reply-types.ts'
import {
  createToolContext,
  createStagedEffects,
  undoFailedCallClaims,
  type ToolStagedEffects,
  type ToolRunAbortAndSeal,
} from './tool-context.ts'
import { startHiveLookupForCall } from './hive-excerpts-for-call-result.ts'
import type { JsonFields } from './tool-input-from-request-body.ts'

/** Validated output of a tool and its duration. */
export interface ToolRunResult {
  readonly output: JsonFields
  readonly traces: ToolStagedEffects
  readonly ms: number
  /** Matching Hive entries. */
  readonly notes: readonly HiveExcerpt[]
}

/**
 * Runs an admitted tool with its deadline. Rejects with a ServiceError or the tool's own error.
 * After `seal`, only the tool's own errors may claim that nothing happened. Throws `cancelled` if
 * the caller disconnects before the start; a started tool runs to its end (decision 149).
 */
export async function runTool(
  parts: CallDeps,
  { plan, callId, amount }: AdmittedCall,
  emit: (event: ToolStreamEvent) => void,
): Promise<ToolRunResult> {
  const { tool, input, request } = plan
  if (request.connection.closed) throw new ServiceError('cancelled')
  const traces = createStagedEffects(tool)
  const started = parts.clock.mono()
  const deadline = createToolDeadline(
    Math.min(tool.timeoutMs, LIMITS.toolDeadlineMs),
    stopSignalsOf(parts, plan),
    request.connection.cancelSignal,
  )
  /** After `seal` the effect may exist: an ordinary error would make the caller repeat it. */
  const toOutcomeUnknown = (error: unknown): unknown => {
    if (!deadline.sealed()) return error
    parts.log(`tool ${tool.slug} failed behind its seal`, error)
    return new ServiceError('outcome_unknown', deadline.known(), error)
  }
  try {
    const price = subtractMicros(
      amount,
      smallerOfTwoMicros(amount, request.run?.fee ?? ZERO_MICROS),
    )
    const context = createToolContext(parts, request, { callId, price }, deadline, traces, emit)
    const look = startHiveLookupForCall(parts, plan)
    const output = await deadline
      .race(tool.run(input, context) as Promise<JsonFields>)
      .catch((error: unknown) => {
        throw error instanceof ServiceError ? error : toOutcomeUnknown(error)
      })
    try {
      checkOutput(parts, tool, output)
    } catch (error) {
      throw toOutcomeUnknown(error)
    }
    const ms = Math.round(parts.clock.mono() - started)
    return { output, traces, ms, notes: await look() }
  } catch (error) {
    parts.failedVisits.recordFailure(plan, error)
    await undoFailedCallClaims(parts, traces)
    throw error
  } finally {
    deadline.clear()
  }
}

/**
 * Runs an instant tool: it ends at once, so it needs no deadline and nothing aborts it. Rejects with the
 * tool's own error; its claims are released then.
 */
export async function runInstantTool(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
): Promise<ToolRunResult> {
  const { tool, input, request } = plan
  if (request.connection.closed) throw new ServiceError('cancelled')
  const traces = createStagedEffects(tool)
  const started = parts.clock.mono()
  try {
    const end = { signal: parts.shutdown, seal: refuseSeal }
    const call = { callId, price: plan.price ?? ZERO_MICROS }
    const context = createToolContext(parts, request, call, end, traces, ignoreEvent)
    const look = startHiveLookupForCall(parts, plan)
    const output = (await tool.run(input, context)) as JsonFields
    checkOutput(parts, tool, output)
    const ms = Math.round(parts.clock.mono() - started)
    return { output, traces, ms, notes: await look() }
  } catch (error) {
    await undoFailedCallClaims(parts, traces)
    throw error
  }
}

const ignoreEvent = (): void => {}
const refuseSeal = (): void => {
  throw new Error('an instant tool has no external effects')
}

/**
 * Signals that abort the tool at shutdown. A read-only schedule run is aborted too, because it is
 * repeated.
 */
function stopSignalsOf(
  { shutdown }: CallDeps,
  { tool, request }: AdmittedCall['plan'],
): AbortSignal[] {
  const again = request.run !== undefined && tool.effect === 'none' && tool.slow !== true
  return again ? [shutdown, request.connection.closeSignal] : [shutdown]
}

function checkOutput({ catalogue }: CallDeps, tool: Tool, output: JsonFields): void {
  catalogue.validateOutput(tool, output)
  if (isJsonSizeBoundWithin(output, LIMITS.toolOutputBytes)) return
  if (Buffer.byteLength(toExactJson(output)) > LIMITS.toolOutputBytes)
    throw new ServiceError('response_too_large', { limit_bytes: LIMITS.toolOutputBytes })
}

interface ToolDeadline extends ToolRunAbortAndSeal {
  sealed(): boolean
  /** Details passed to `seal`. */
  known(): Record<string, unknown>
  /** The result of the work, or the reason of the abort if the tool ignores its signal. */
  race<T>(work: Promise<T>): Promise<T>
  clear(): void
}

/** One abort signal for deadline and shutdown, each with its reason. */
function createToolDeadline(
  deadlineMs: number,
  stops: readonly AbortSignal[],
  cancelled: AbortSignal | undefined,
): ToolDeadline {
  let controller: AbortController | null = null
  let abortReason: ServiceError | null = null
  let rejectHeld: (reason: ServiceError) => void = () => {}
  let sealed = false
  let knownDetails: Readonly<Record<string, unknown>> = {}
  const cut = (reason: ServiceError) => {
    if (sealed) return rejectHeld(new ServiceError('outcome_unknown', { ...knownDetails }, reason))
    abortReason ??= reason
    controller?.abort(abortReason)
    rejectHeld(reason)
  }
  const late = setTimeout(() => cut(new ServiceError('tool_timeout')), deadlineMs)
  const stop = () => cut(new ServiceError('unavailable', { retry_after: 2 }))
  const removals = stops.map((signal) => addSharedAbortListener(signal, stop))
  /** What has begun to act on others is finished. */
  const takeBack = () => {
    if (!sealed) cut(new ServiceError('cancelled'))
  }
  cancelled?.addEventListener('abort', takeBack, { once: true })
  return {
    get signal() {
      controller ??= new AbortController()
      if (abortReason !== null) controller.abort(abortReason)
      return controller.signal
    },
    seal(known = {}) {
      if (abortReason !== null) throw abortReason
      knownDetails = known
      sealed = true
    },
    sealed: () => sealed,
    known: () => ({ ...knownDetails }),
    race: (work) =>
      new Promise((resolve, reject) => {
        rejectHeld = reject
        if (stops.some((signal) => signal.aborted)) stop()
        if (cancelled?.aborted === true) takeBack()
        work.then(resolve, (error: unknown) => reject(abortReason ?? error))
      }),
    clear() {
      clearTimeout(late)
      for (const remove of removals) remove()
      cancelled?.removeEventListener('abort', takeBack)
    },
  }
}
