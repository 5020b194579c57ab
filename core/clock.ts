import { performance } from 'node:perf_hooks'

/**
 * The only source of time. `now()` follows the database clock, so that all nodes agree on days,
 * months and expiries. `mono()` measures durations.
 */
export interface Clock {
  /** Milliseconds since the epoch by the database clock, an integer. */
  now(): number
  /** Monotonic milliseconds, for measuring durations. */
  mono(): number
  /** Adds the measured offset of the database clock to `now()`, in milliseconds. */
  adjust(byMs: number): void
  /** Records the difference of wall and monotonic clock for `hasJumped()`. */
  setJumpBaseline(): void
  /**
   * Whether the wall clock has moved against the monotonic clock since `setJumpBaseline()`: it was
   * set, or the machine slept. `now()` may then be wrong until the next measurement.
   */
  hasJumped(): boolean
}

/** Milliseconds. The wall clock can be set; the monotonic clock never goes back. */
export interface ClockSources {
  readonly wall: () => number
  readonly mono: () => number
}

const MACHINE: ClockSources = { wall: () => Date.now(), mono: () => performance.now() }
/** A larger difference is a jump and not clock slew. */
const MIN_JUMP_MS = 1_000

/**
 * Adds monotonic time to the last measurement. Setting the wall clock changes nothing, so no day,
 * limit or key ends before the database clock says so.
 */
export function createDatabaseAdjustedClock({ wall, mono }: ClockSources = MACHINE): Clock {
  const apart = () => wall() - mono()
  let base = apart()
  let anchored = base
  return {
    now: () => Math.floor(base + mono()),
    mono,
    adjust(byMs) {
      base += byMs
    },
    setJumpBaseline() {
      anchored = apart()
    },
    hasJumped: () => Math.abs(apart() - anchored) > MIN_JUMP_MS,
  }
}

export const SECOND = 1_000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

let formattedDay = Number.NaN
let dayText = ''

/** The UTC day, as `2026-11-21`. The last day is kept: a call asks for it several times. */
export function utcDay(at: number): string {
  const day = Math.floor(at / DAY)
  if (day !== formattedDay) {
    dayText = new Date(at).toISOString().slice(0, 10)
    formattedDay = day
  }
  return dayText
}
/** The UTC month, as `2026-11`. */
export const utcMonth = (at: number): string => utcDay(at).slice(0, 7)
/** Milliseconds to the next UTC midnight. */
export const msUntilNextUtcDay = (at: number): number => DAY - (at % DAY)
/** Milliseconds to the first day of the next UTC month. */
export function msUntilNextUtcMonth(at: number): number {
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) - at
}
