import { ServiceError } from '../../../core/errors.ts'
import type { ToolContext } from '../../define-tool.ts'

/** A stage that has ended. */
export interface CrewStageResult {
  readonly name: string
  readonly ms: number
  /** What came of it, in a few words. */
  readonly note: string
}

/** What a stage found and what is said of it. */
export interface CrewStageOutput<T> {
  readonly value: T
  readonly note: string
}

export interface CrewStages {
  readonly done: readonly CrewStageResult[]
  /** The caller's context, whose signal also ends when a stage has failed. */
  readonly context: ToolContext
  /**
   * Runs one stage and tells of it. A failure names its stage and ends the stages beside it: a crew
   * succeeds whole or not at all.
   */
  run<T>(name: string, work: () => Promise<CrewStageOutput<T>>): Promise<T>
}

/** How the stages of one crew are run; `expected` of them, as far as that is known. */
export function createCrewStages(given: ToolContext, expected: number): CrewStages {
  const failing = new AbortController()
  const signal = AbortSignal.any([given.signal, failing.signal])
  const context: ToolContext = { ...given, signal }
  const done: CrewStageResult[] = []
  const running = new Set<string>()
  // The call is answered with this reason at once: it has to name the stage before that.
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
        const told = withStageName(error, name)
        // The first failure is the one that is told.
        if (!failing.signal.aborted) failing.abort(told)
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
