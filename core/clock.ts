import { performance } from 'node:perf_hooks'

/**
 * The one source of time. `now()` is the database's clock as far as this node has measured it, so
 * that all nodes agree on days, months and expiries; `mono()` is for durations only.
 */
export interface Clock {
  /** Milliseconds since the epoch, by the database's clock. */
  now(): number
  /** Monotonic milliseconds, for measuring durations. */
  mono(): number
  /** Moves `now()` by what the database's clock was found to be ahead of it, in milliseconds. */
  correct(byMs: number): void
}

export function systemClock(): Clock {
  let offset = 0
  return {
    now: () => Date.now() + offset,
    mono: () => performance.now(),
    correct(byMs) {
      offset += byMs
    },
  }
}

export const SECOND = 1_000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

/** The UTC day of an instant as `2026-11-21`. */
export const utcDay = (at: number): string => new Date(at).toISOString().slice(0, 10)
/** The UTC month of an instant as `2026-11`. */
export const utcMonth = (at: number): string => new Date(at).toISOString().slice(0, 7)
/** Milliseconds until the next UTC midnight. */
export const untilNextDay = (at: number): number => DAY - (at % DAY)
/** Milliseconds until the first of the next UTC month. */
export function untilNextMonth(at: number): number {
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) - at
}
