import { ServiceError } from '../../../core/errors.ts'
import type { ToolContext } from '../../define-tool.ts'

/** Longer a crew does not wait for a model: what it has read is written up by the house then. */
const LLM_TIMEOUT_MS = 30_000

/** The work with a time of its own; null when that is over. What ends the call ends it too. */
export async function withLlmTimeout<T>(
  context: ToolContext,
  work: (context: ToolContext) => Promise<T>,
  ms = LLM_TIMEOUT_MS,
): Promise<T | null> {
  const late = AbortSignal.timeout(ms)
  const signal = AbortSignal.any([context.signal, late])
  try {
    return await work({ ...context, signal })
  } catch (error) {
    context.signal.throwIfAborted()
    if (!late.aborted || (error !== late.reason && !(error instanceof ServiceError))) throw error
    return null
  }
}
