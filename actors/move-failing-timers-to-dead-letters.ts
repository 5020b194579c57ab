import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { DueTimer } from '../persistence/aggregate-store.ts'

/** Moves a timer that keeps failing to the dead letters. */
export type MoveTimerToDeadLetters = (
  timer: Pick<DueTimer, 'aggregateId' | 'id' | 'dueAt'> & { readonly reason: string },
) => Promise<void>

interface TimerFailures {
  readonly since: number
  count: number
}

const MAX_TRACKED_TIMERS = 10_000

/**
 * Tracks failing timers. Moves a timer to the dead letters after `timerAttempts` failures over
 * `timerMinFailureMs`.
 */
export function createTimerFailureTracker(clock: Clock, bury: MoveTimerToDeadLetters | undefined) {
  const failing = new Map<string, TimerFailures>()
  return {
    worked: (due: DueTimer) => void failing.delete(timerKey(due)),

    async failed(due: DueTimer, error: unknown): Promise<void> {
      if (bury === undefined || isTransientError(error)) return
      const name = timerKey(due)
      const failures = failing.get(name) ?? { since: clock.mono(), count: 0 }
      if (failing.size < MAX_TRACKED_TIMERS) failing.set(name, failures)
      failures.count += 1
      const lasted = clock.mono() - failures.since >= LIMITS.timerMinFailureMs
      if (!lasted || failures.count < LIMITS.timerAttempts) return
      failing.delete(name)
      const { aggregateId, id, dueAt } = due
      await bury({ aggregateId, id, dueAt, reason: String(error) })
    },
  }
}

const timerKey = ({ aggregateId, id }: DueTimer): string => `${aggregateId} ${id}`

/** Database outages and full mailboxes say nothing about the timer. */
const isTransientError = (error: unknown): boolean =>
  error instanceof ServiceError && ['unavailable', 'overloaded'].includes(error.code)
