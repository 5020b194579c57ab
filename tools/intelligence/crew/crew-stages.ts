import { ServiceError } from '../../../core/errors.ts'
import { deriveToolContext, type ToolContext } from '../../define-tool.ts'

/** A finished stage. */
export interface CrewStageResult {
  readonly name: string
  readonly ms: number
  /** A short summary of its result. */
  readonly note: string
}

/** The result of a stage and its summary. */
export interface CrewStageOutput<T> {
  readonly value: T
  readonly note: string
}

export interface CrewStageRunner {
  readonly done: readonly CrewStageResult[]
  /** The caller's context; its signal also aborts when a stage fails. */
  readonly context: ToolContext
  /**
   * Runs a stage and emits its progress. A failure names its stage and aborts the stages beside it: a crew
   * succeeds as a whole or not at all.
   */
  run<T>(name: string, work: () => Promise<CrewStageOutput<T>>): Promise<T>
}

/** Creates the stage runner of one crew. `expected` is the number of stages, as far as it is known. */
export function createCrewStageRunner(given: ToolContext, expected: number): CrewStageRunner {
  const failing = new AbortController()
  const signal = AbortSignal.any([given.signal, failing.signal])
  const context = deriveToolContext(given, { signal })
  const done: CrewStageResult[] = []
  const running = new Set<string>()
  // The call is answered with this reason at once, so it must name the stage by then.
  given.signal.addEventListener('abort', () => {
    const [oldest] = running
    const reason: unknown = given.signal.reason
    if (reason instanceof ServiceError && oldest !== undefined) reason.details['stage'] ??= oldest
  })
  const { emit, now } = given
  const fraction = () => Math.min(1, done.length / expected)
  return {
    done,
    context,
    async run(name, work) {
      signal.throwIfAborted()
      const from = now().getTime()
      running.add(name)
      emit({ type: 'progress', step: name, fraction: fraction(), note: 'started' })
      try {
        const { value, note } = await work()
        const ms = Math.max(0, now().getTime() - from)
        done.push({ name, ms, note })
        emit({ type: 'progress', step: name, fraction: fraction(), note })
        return value
      } catch (error) {
        const failure = withStageName(error, name)
        // Only the first failure is reported.
        if (!failing.signal.aborted) failing.abort(failure)
        throw failing.signal.reason
      } finally {
        running.delete(name)
      }
    },
  }
}

function withStageName(error: unknown, stage: string): unknown {
  if (!(error instanceof ServiceError) || 'stage' in error.details) return error
  return new ServiceError(error.code, { ...error.details, stage }, error)
}
