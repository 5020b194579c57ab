import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { ToolEvent } from '../tools/define.ts'
import type { Ticket } from './ticket.ts'
import type { CallParts } from './calls.ts'
import { contextOf, noTraces, type Traces } from './context.ts'
import type { AnyJson } from './fields.ts'

/** What a tool answered, validated, and how long it took. */
export interface Outcome {
  readonly output: AnyJson
  readonly traces: Traces
  readonly ms: number
}

/** Runs an admitted tool under its deadline. Rejects with a ServiceError, or with the tool's own bug. */
export async function runTool(
  parts: CallParts,
  { plan, callId }: Ticket,
  emit: (event: ToolEvent) => void,
): Promise<Outcome> {
  const { tool, input, request } = plan
  const traces = noTraces()
  const started = parts.clock.mono()
  // Work with effects runs to its end; one that only reads is not finished for nobody.
  const client = tool.effect === 'none' ? request.signal : null
  const leash = leashOf(Math.min(tool.timeoutMs, LIMITS.toolDeadlineMs), parts.shutdown, client)
  try {
    const context = contextOf(parts, request, callId, leash.signal, traces, emit)
    const output = await leash.hold(tool.run(input, context) as Promise<AnyJson>)
    parts.catalogue.validateOutput(tool, output)
    if (Buffer.byteLength(JSON.stringify(output)) > LIMITS.toolOutputBytes) {
      throw new ServiceError('response_too_large', { limit_bytes: LIMITS.toolOutputBytes })
    }
    return { output, traces, ms: Math.round(parts.clock.mono() - started) }
  } finally {
    leash.drop()
  }
}

interface Leash {
  readonly signal: AbortSignal
  /** The work's answer, or why its time was cut short: a tool that ignores its signal is left. */
  hold<T>(work: Promise<T>): Promise<T>
  drop(): void
}

/** One signal for the deadline, the end of the service and a client who left; each with its reason. */
function leashOf(deadlineMs: number, shutdown: AbortSignal, client: AbortSignal | null): Leash {
  const end = new AbortController()
  let rejectHeld: (reason: ServiceError) => void = () => {}
  const cut = (reason: ServiceError) => {
    end.abort(reason)
    rejectHeld(reason)
  }
  const late = setTimeout(() => cut(new ServiceError('tool_timeout')), deadlineMs)
  const stop = () => cut(new ServiceError('unavailable', { retry_after: 2 }))
  const leave = () => cut(new ServiceError('cancelled'))
  shutdown.addEventListener('abort', stop)
  client?.addEventListener('abort', leave)
  return {
    signal: end.signal,
    hold: (work) =>
      new Promise((resolve, reject) => {
        rejectHeld = reject
        if (shutdown.aborted) stop()
        else if (client?.aborted === true) leave()
        work.then(resolve, (error: unknown) =>
          reject(end.signal.aborted ? (end.signal.reason as ServiceError) : error),
        )
      }),
    drop() {
      clearTimeout(late)
      shutdown.removeEventListener('abort', stop)
      client?.removeEventListener('abort', leave)
    },
  }
}
