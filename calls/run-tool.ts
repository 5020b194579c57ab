import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { Tool, ToolEvent } from '../tools/define-tool.ts'
import type { AdmittedCall } from './admitted-call.ts'
import type { CallDeps, HiveExcerpt } from './call-request-and-reply-types.ts'
import {
  createToolContext,
  createStagedEffects,
  releaseToolClaims,
  type StagedEffects,
} from './tool-context.ts'
import { startHiveLookupForCall } from './call-hive-lookup.ts'
import type { JsonFields } from './extract-tool-input.ts'

/** Validated output of a tool and its duration. */
export interface ToolRunResult {
  readonly output: JsonFields
  readonly traces: StagedEffects
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
  { plan, callId }: AdmittedCall,
  emit: (event: ToolEvent) => void,
): Promise<ToolRunResult> {
  const { tool, input, request } = plan
  if (request.signal.aborted) throw new ServiceError('cancelled')
  const traces = createStagedEffects()
  const started = parts.clock.mono()
  const deadline = createToolDeadline(
    Math.min(tool.timeoutMs, LIMITS.toolDeadlineMs),
    stopSignalsOf(parts, plan),
  )
  /** After `seal` the effect may exist: an ordinary error would make the caller repeat it. */
  const toOutcomeUnknown = (error: unknown): unknown => {
    if (!deadline.sealed()) return error
    parts.log(`tool ${tool.slug} failed behind its seal`, error)
    return new ServiceError('outcome_unknown', deadline.known(), error)
  }
  try {
    const context = createToolContext(
      parts,
      request,
      callId,
      deadline.signal,
      traces,
      emit,
      deadline.seal,
    )
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
    await releaseToolClaims(parts, traces)
    throw error
  } finally {
    deadline.clear()
  }
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
  return again ? [shutdown, request.signal] : [shutdown]
}

function checkOutput({ catalogue }: CallDeps, tool: Tool, output: JsonFields): void {
  catalogue.validateOutput(tool, output)
  if (Buffer.byteLength(JSON.stringify(output)) > LIMITS.toolOutputBytes)
    throw new ServiceError('response_too_large', { limit_bytes: LIMITS.toolOutputBytes })
}

interface ToolDeadline {
  readonly signal: AbortSignal
  /** After this the work is not aborted. If it exceeds the deadline, its outcome is unknown. */
  seal(known?: Readonly<Record<string, unknown>>): void
  sealed(): boolean
  /** Details passed to `seal`. */
  known(): Record<string, unknown>
  /** The result of the work, or the reason of the abort if the tool ignores its signal. */
  race<T>(work: Promise<T>): Promise<T>
  clear(): void
}

/** One abort signal for deadline and shutdown, each with its reason. */
function createToolDeadline(deadlineMs: number, stops: readonly AbortSignal[]): ToolDeadline {
  const end = new AbortController()
  let rejectHeld: (reason: ServiceError) => void = () => {}
  let sealed = false
  let knownDetails: Readonly<Record<string, unknown>> = {}
  const cut = (reason: ServiceError) => {
    if (sealed) return rejectHeld(new ServiceError('outcome_unknown', { ...knownDetails }, reason))
    end.abort(reason)
    rejectHeld(reason)
  }
  const late = setTimeout(() => cut(new ServiceError('tool_timeout')), deadlineMs)
  const stop = () => cut(new ServiceError('unavailable', { retry_after: 2 }))
  for (const signal of stops) signal.addEventListener('abort', stop)
  return {
    signal: end.signal,
    seal(known = {}) {
      end.signal.throwIfAborted()
      knownDetails = known
      sealed = true
    },
    sealed: () => sealed,
    known: () => ({ ...knownDetails }),
    race: (work) =>
      new Promise((resolve, reject) => {
        rejectHeld = reject
        if (stops.some((signal) => signal.aborted)) stop()
        work.then(resolve, (error: unknown) =>
          reject(end.signal.aborted ? (end.signal.reason as ServiceError) : error),
        )
      }),
    clear() {
      clearTimeout(late)
      for (const signal of stops) signal.removeEventListener('abort', stop)
    },
  }
}
