import { SECOND } from '../core/clock.ts'

/** Retries writes of effects that cannot be undone. */

export interface WriteRetryOptions {
  /** Whether the error means that the database is unreachable. */
  readonly isOutage: (error: unknown) => boolean
  readonly isStopped: () => boolean
}

const RETRY_DELAY_MS = SECOND / 4
/** Give up after this many rejections. Outages are retried forever. */
const MAX_REJECTIONS = 6

/**
 * Writes a record of an external effect. Retries during outages until stopped, and at most
 * `MAX_REJECTIONS` times when the database rejects it. Throws the last error.
 */
export async function recordExternalEffectWithRetry(
  write: () => Promise<void>,
  { isOutage, isStopped }: WriteRetryOptions,
): Promise<void> {
  for (let refusals = 0; ;) {
    try {
      return await write()
    } catch (error) {
      if (!isOutage(error)) refusals += 1
      if (isStopped() || refusals >= MAX_REJECTIONS) throw error
      await new Promise((done) => setTimeout(done, RETRY_DELAY_MS))
    }
  }
}
