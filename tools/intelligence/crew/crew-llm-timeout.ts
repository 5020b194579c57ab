import { ServiceError } from '../../../core/errors.ts'
import { deriveToolContext, type ToolContext } from '../../define-tool.ts'

/** The time limit of language models in crews. */

/** After this the crew writes its report without a model. */
const LLM_TIMEOUT_MS = 30_000

/** Runs `work` with a timeout; returns null when it expires. An abort of the call still throws. */
export async function withLlmTimeout<T>(
  context: ToolContext,
  work: (context: ToolContext) => Promise<T>,
  ms = LLM_TIMEOUT_MS,
): Promise<T | null> {
  const late = AbortSignal.timeout(ms)
  const signal = AbortSignal.any([context.signal, late])
  try {
    return await work(deriveToolContext(context, { signal }))
  } catch (error) {
    context.signal.throwIfAborted()
    if (!late.aborted || (error !== late.reason && !(error instanceof ServiceError))) throw error
    return null
  }
}
