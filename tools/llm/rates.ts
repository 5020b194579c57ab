import { MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { limited } from '../../core/limited.ts'

/** Whoever asked longest ago is forgotten beyond so many. */
const MOST_CALLERS = 10_000
const REQUESTS = { name: 'models', what: 'requests to models', per: 'caller', seconds: 60 } as const

/** Counts requests of each caller in windows of a minute, on this node alone. */
export function createRates(clock: Clock, perMinute: number) {
  const windows = new Map<string, { endsAt: number; count: number }>()
  return {
    /** Refuses with `rate_limited`. */
    count(caller: string): void {
      const now = clock.mono()
      const known = windows.get(caller)
      const window = known !== undefined && known.endsAt > now ? known : fresh(now)
      windows.delete(caller)
      windows.set(caller, window)
      if (windows.size > MOST_CALLERS) windows.delete(windows.keys().next().value ?? '')
      if (window.count >= perMinute) {
        const retryAfter = Math.max(1, Math.ceil((window.endsAt - now) / SECOND))
        throw limited({ ...REQUESTS, most: perMinute }, retryAfter)
      }
      window.count += 1
    },
  }
}

const fresh = (now: number) => ({ endsAt: now + MINUTE, count: 0 })
