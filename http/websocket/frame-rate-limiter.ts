import { SECOND, type Clock } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'

/** How a frame is to be treated that came too soon. */
export type FrameRateDecision = 'take' | 'refuse' | 'close'

const REJECTION_WINDOW_MS = 10 * SECOND

/**
 * Twenty frames a second, and as many at once. What comes too soon is refused with an error; who goes
 * on all the same, until as many were refused in ten seconds, is closed.
 */
export function createFrameRateLimiter(clock: Pick<Clock, 'mono'>): () => FrameRateDecision {
  const size: number = LIMITS.framesPerSecond
  let [left, at] = [size, clock.mono()]
  let [refused, since] = [0, 0]
  return () => {
    const now = clock.mono()
    left = Math.min(size, left + ((now - at) / SECOND) * LIMITS.framesPerSecond)
    at = now
    if (left >= 1) {
      left -= 1
      return 'take'
    }
    if (now - since > REJECTION_WINDOW_MS) [refused, since] = [0, now]
    refused += 1
    return refused > size ? 'close' : 'refuse'
  }
}
