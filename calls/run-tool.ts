import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { Tool, ToolEvent } from '../tools/define-tool.ts'
import type { AdmittedCall } from './admitted-call.ts'
import type { CallDeps, HiveExcerpt } from './call-types.ts'
import {
  createToolContext,
  createStagedEffects,
  releaseToolClaims,
  type StagedEffects,
} from './tool-context.ts'
import { startHiveEnrichment } from './hive-enrichment.ts'
import type { JsonFields } from './tool-input.ts'

/** What a tool answered, validated, and how long it took. */
export interface ToolRunResult {
  readonly output: JsonFields
  readonly traces: StagedEffects
  readonly ms: number
  /** What the Hive has on it. */
  readonly notes: readonly HiveExcerpt[]
}

/**
 * Runs an admitted tool under its deadline. Rejects with a ServiceError, or with the tool's own bug;
 * behind a seal no error says that nothing happened, but for those that the tool itself gives. A
 * caller who has left before it begins is `cancelled`; a tool that has begun runs to its end (decision 149).
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
  const leash = createToolDeadline(
    Math.min(tool.timeoutMs, LIMITS.toolDeadlineMs),
    stopSignalsOf(parts, plan),
  )
  /** What was done stays done, whatever becomes of its answer: who hears of a failure does it again. */
  const afterwards = (error: unknown): unknown => {
    if (!leash.sealed()) return error
    parts.log(`tool ${tool.slug} failed behind its seal`, error)
    return new ServiceError('outcome_unknown', leash.known(), error)
  }
  try {
    const context = createToolContext(
      parts,
      request,
      callId,
      leash.signal,
      traces,
      emit,
      leash.seal,
    )
    const look = startHiveEnrichment(parts, plan)
    const output = await leash
      .race(tool.run(input, context) as Promise<JsonFields>)
      .catch((error: unknown) => {
        throw error instanceof ServiceError ? error : afterwards(error)
      })
    try {
      checkOutput(parts, tool, output)
    } catch (error) {
      throw afterwards(error)
    }
    const ms = Math.round(parts.clock.mono() - started)
    return { output, traces, ms, notes: await look() }
  } catch (error) {
    parts.failedVisits.recordFailure(plan, error)
    await releaseToolClaims(parts, traces)
    throw error
  } finally {
    leash.clear()
  }
}

/** What ends the work because the station stops; a run of a schedule that only reads is made again. */
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
  /** From here on the work is not aborted: when its time is over, nobody knows what became of it. */
  seal(known?: Readonly<Record<string, unknown>>): void
  sealed(): boolean
  /** What was known when it was sealed. */
  known(): Record<string, unknown>
  /** The work's answer, or why its time was cut short: a tool that ignores its signal is left. */
  race<T>(work: Promise<T>): Promise<T>
  clear(): void
}

/** One signal for the deadline and the end of the service; each with its reason. */
function createToolDeadline(deadlineMs: number, stops: readonly AbortSignal[]): ToolDeadline {
  const end = new AbortController()
  let rejectHeld: (reason: ServiceError) => void = () => {}
  let sealed = false
  let told: Readonly<Record<string, unknown>> = {}
  const cut = (reason: ServiceError) => {
    if (sealed) return rejectHeld(new ServiceError('outcome_unknown', { ...told }, reason))
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
      told = known
      sealed = true
    },
    sealed: () => sealed,
    known: () => ({ ...told }),
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
