import type { Clock } from '../clock.ts'

/**
 * Reads at most once in `ttlMs` milliseconds. Concurrent readers share one read. A failure is not kept:
 * the next reader tries again.
 */
export function createSingleValueTtlCache<T>(
  clock: Pick<Clock, 'mono'>,
  ttlMs: number,
  read: () => Promise<T>,
): () => Promise<T> {
  let last: { readonly until: number; readonly ready: Promise<T> } | undefined
  return () => {
    if (last !== undefined && clock.mono() < last.until) return last.ready
    const mine = { until: clock.mono() + ttlMs, ready: read() }
    last = mine
    mine.ready.catch(() => {
      if (last === mine) last = undefined
    })
    return mine.ready
  }
}
