import { setTimeout as wait } from 'node:timers/promises'
import { SECOND, msUntilNextUtcDay } from '../../../core/clock.ts'

/** Keeps tests away from the end of a UTC day. */

/** Longer than any test needs with its station. */
const MIN_MS_BEFORE_MIDNIGHT = 120 * SECOND

/**
 * Stations of tests live by the real clock, several of them by the same one. A day or a month that
 * ends in the middle of a race would let twice as many calls through: then it is waited for.
 */
export async function waitPastMidnight(now = Date.now()): Promise<void> {
  const left = msUntilNextUtcDay(now)
  if (left < MIN_MS_BEFORE_MIDNIGHT) await wait(left + SECOND)
}
