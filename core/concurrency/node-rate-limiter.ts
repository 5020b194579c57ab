import { SECOND, type Clock } from '../clock.ts'
import { rateLimitError, type RateLimitRule } from '../rate-limit-error.ts'

/** Counts events per owner in time windows, on this node only. */
export interface NodeRateLimiter {
  /** Throws `rate_limited` when the owner's window, `factor` times the limit, is full. */
  assertWithinLimit(owner: string, factor?: number): void
  recordHit(owner: string): void
}

/** Above this number the least recently counted owner is dropped. */
const MAX_OWNERS = 10_000

export function createNodeRateLimiter(
  clock: Pick<Clock, 'mono'>,
  limit: RateLimitRule,
): NodeRateLimiter {
  const windows = new Map<string, { endsAt: number; count: number }>()

  function windowOf(owner: string, now: number) {
    const known = windows.get(owner)
    return known !== undefined && known.endsAt > now
      ? known
      : { endsAt: now + limit.windowSeconds * SECOND, count: 0 }
  }

  return {
    assertWithinLimit(owner, factor = 1) {
      const now = clock.mono()
      const { endsAt, count } = windowOf(owner, now)
      const max = limit.max * factor
      if (count >= max)
        throw rateLimitError({ ...limit, max }, Math.max(1, Math.ceil((endsAt - now) / SECOND)))
    },
    recordHit(owner) {
      const window = windowOf(owner, clock.mono())
      window.count += 1
      windows.delete(owner)
      windows.set(owner, window)
      if (windows.size > MAX_OWNERS) windows.delete(windows.keys().next().value ?? '')
    },
  }
}
