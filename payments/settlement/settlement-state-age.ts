import type { Clock } from '../../core/clock.ts'

/** Since when settlements have stood in one way, as this node has seen it, one look after the other. */
export interface SettlementStateAge {
  /** It stands so now; whether it did so long enough ago. */
  hasLasted(id: string): boolean
  reset(id: string): void
}

const MAX_TRACKED_SETTLEMENTS = 1_000

/** Remembers a thousand settlements; what is forgotten begins anew, which only takes `longMs` once more. */
export function createSettlementStateAge(
  clock: Pick<Clock, 'mono'>,
  longMs: number,
): SettlementStateAge {
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
