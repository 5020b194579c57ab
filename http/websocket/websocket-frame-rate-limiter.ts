import { SECOND, type Clock } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'

/** What to do with a frame: handle it, refuse it, or close the socket. */
export type WsFrameRateDecision = 'take' | 'refuse' | 'close'

const REJECTION_WINDOW_MS = 10 * SECOND

/**
 * Allows twenty frames a second with a burst of twenty; a frame counts once for each started
 * `LIMITS.countedBodyBytes`. Frames above that are refused with an error; the socket closes when twenty were refused
 * within ten seconds.
 */
export function createWsFrameRateLimiter(
  clock: Pick<Clock, 'mono'>,
): (bytes: number) => WsFrameRateDecision {
  const size: number = LIMITS.framesPerSecond
  let [left, at] = [size, clock.mono()]
  let [refused, since] = [0, 0]
  return (bytes) => {
    const cost = Math.max(1, Math.ceil(bytes / LIMITS.countedBodyBytes))
    const now = clock.mono()
    left = Math.min(size, left + ((now - at) / SECOND) * LIMITS.framesPerSecond)
    at = now
    if (left >= cost) {
      left -= cost
      return 'take'
    }
    if (now - since > REJECTION_WINDOW_MS) [refused, since] = [0, now]
    refused += 1
    return refused > size ? 'close' : 'refuse'
  }
}
