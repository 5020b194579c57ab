import { SECOND } from '../core/clock.ts'

export interface WriteRetryOptions {
  /** Whether an error says that the store cannot be reached right now. */
  readonly isOutage: (error: unknown) => boolean
  readonly isStopped: () => boolean
}

const RETRY_DELAY_MS = SECOND / 4
/** A store that answers and refuses so often will not take it. */
const MAX_REJECTIONS = 6

/**
 * Writes down what has happened outside, where it cannot be undone: through an outage for as long as
 * it lasts, but not for ever against a store that refuses it. Rejects with what the store said last.
 */
export async function writeWithRetry(
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
