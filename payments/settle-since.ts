import type { Clock } from '../core/clock.ts'

/** Since when settlements have stood in one way, as this node has seen it, one look after the other. */
export interface Since {
  /** It stands so now; whether it did so long enough ago. */
  forLong(id: string): boolean
  end(id: string): void
}

const MOST = 1_000

/** Remembers a thousand settlements; what is forgotten begins anew, which only takes `longMs` once more. */
export function since(clock: Pick<Clock, 'mono'>, longMs: number): Since {
  const seen = new Map<string, number>()
  return {
    forLong(id) {
      const first = seen.get(id)
      if (first !== undefined) return clock.mono() - first >= longMs
      if (seen.size >= MOST) seen.clear()
      seen.set(id, clock.mono())
      return false
    },
    end: (id) => void seen.delete(id),
  }
}
