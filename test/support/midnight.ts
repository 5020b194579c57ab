import { setTimeout as wait } from 'node:timers/promises'
import { SECOND, untilNextDay } from '../../core/clock.ts'

/** Longer than any test needs with its station. */
const ROOM_MS = 120 * SECOND

/**
 * Stations of tests live by the real clock, several of them by the same one. A day or a month that
 * ends in the middle of a race would let twice as many calls through: then it is waited for.
 */
export async function awayFromMidnight(now = Date.now()): Promise<void> {
  const left = untilNextDay(now)
  if (left < ROOM_MS) await wait(left + SECOND)
}
