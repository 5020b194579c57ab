import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { DueTimer } from '../persistence/aggregates.ts'

/** Takes a timer that fails for good out of the way, and keeps it where it is seen. */
export type Bury = (
  timer: Pick<DueTimer, 'aggregateId' | 'id' | 'dueAt'> & { readonly reason: string },
) => Promise<void>

interface Failures {
  readonly since: number
  count: number
}

const MOST = 10_000

/** Counts which timers fail: what has failed often and for long would fail for ever, unseen. */
export function failingTimers(clock: Clock, bury: Bury | undefined) {
  const failing = new Map<string, Failures>()
  return {
    worked: (due: DueTimer) => void failing.delete(nameOf(due)),

    async failed(due: DueTimer, error: unknown): Promise<void> {
      if (bury === undefined || isPassing(error)) return
      const name = nameOf(due)
      const failures = failing.get(name) ?? { since: clock.mono(), count: 0 }
      if (failing.size < MOST) failing.set(name, failures)
      failures.count += 1
      const lasted = clock.mono() - failures.since >= LIMITS.timerPatienceMs
      if (!lasted || failures.count < LIMITS.timerAttempts) return
      failing.delete(name)
      const { aggregateId, id, dueAt } = due
      await bury({ aggregateId, id, dueAt, reason: String(error) })
    },
  }
}

const nameOf = ({ aggregateId, id }: DueTimer): string => `${aggregateId} ${id}`

/** Says nothing about the timer: the database was away, or too much was asked of its aggregate. */
const isPassing = (error: unknown): boolean =>
  error instanceof ServiceError && ['unavailable', 'overloaded'].includes(error.code)
