import type { Clock } from '../../core/clock.ts'

/** Tracks how long this node has observed each settlement in its current state. */
export interface SettlementStateAgeTracker {
  /** Observes the state now; returns whether it has lasted long enough. */
  hasLasted(id: string): boolean
  reset(id: string): void
}

const MAX_TRACKED_SETTLEMENTS = 1_000

/**
 * Remembers a thousand settlements; a forgotten one starts again, which only delays it by `longMs`.
 */
export function createSettlementStateAgeTracker(
  clock: Pick<Clock, 'mono'>,
  longMs: number,
): SettlementStateAgeTracker {
  const seen = new Map<string, number>()
  return {
    hasLasted(id) {
      const first = seen.get(id)
      if (first !== undefined) return clock.mono() - first >= longMs
      if (seen.size >= MAX_TRACKED_SETTLEMENTS) seen.clear()
      seen.set(id, clock.mono())
      return false
    },
    reset: (id) => void seen.delete(id),
  }
}
