import { performance } from 'node:perf_hooks'

/**
 * The one source of time. `now()` is the database's clock as far as this node has measured it, so
 * that all nodes agree on days, months and expiries; `mono()` is for durations only.
 */
export interface Clock {
  /** Whole milliseconds since the epoch, by the database's clock. */
  now(): number
  /** Monotonic milliseconds, for measuring durations. */
  mono(): number
  /** Moves `now()` by what the database's clock was found to be ahead of it, in milliseconds. */
  adjust(byMs: number): void
  /** Notes how both hands of this machine stand, for `disturbed()` to compare with. */
  setJumpBaseline(): void
  /**
   * Whether the wall clock has gone another way than the monotonic one since `anchor()`: it was set, or
   * the machine has slept. Then `now()` may lag until the database's clock is measured again.
   */
  hasJumped(): boolean
}

/** Both in milliseconds; the wall clock may be set by anybody, the monotonic one never goes back. */
export interface ClockSources {
  readonly wall: () => number
  readonly mono: () => number
}

const MACHINE: ClockSources = { wall: () => Date.now(), mono: () => performance.now() }
/** How far the two may part before it is more than the clock being slewed. */
const MIN_JUMP_MS = 1_000

/**
 * Measured time plus monotonic time since: a wall clock that is set between two measurements moves
 * nothing, so no day, fuse or key of this node ends before the database says so.
 */
export function createSystemClock({ wall, mono }: ClockSources = MACHINE): Clock {
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

/** The UTC day of an instant as `2026-11-21`. */
export const utcDay = (at: number): string => new Date(at).toISOString().slice(0, 10)
/** The UTC month of an instant as `2026-11`. */
export const utcMonth = (at: number): string => new Date(at).toISOString().slice(0, 7)
/** Milliseconds until the next UTC midnight. */
export const msUntilNextUtcDay = (at: number): number => DAY - (at % DAY)
/** Milliseconds until the first of the next UTC month. */
export function msUntilNextUtcMonth(at: number): number {
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) - at
}
