import { SECOND, type Clock } from '../../core/clock.ts'
import { createFairSemaphore } from '../../core/concurrency/fair-semaphore.ts'
import { ServiceError } from '../../core/errors.ts'

/**
 * Bounds the searches of the journal that run at a time: one for an actor that rests since long reads
 * many versions of its aggregate, and calls use the same database.
 */

/** Searches of a node, shared fairly between callers. */
const MAX_READS = 2
const MAX_WAITING = 200
const MAX_WAITING_PER_CALLER = 20
const MAX_WAIT_MS = 10 * SECOND

/** Runs a search when it is its turn. Rejects with `overloaded` where too many wait. */
export type RunQueuedActorHistoryRead = <T>(caller: string, read: () => Promise<T>) => Promise<T>

export function createActorHistoryReadQueue(clock: Pick<Clock, 'mono'>): RunQueuedActorHistoryRead {
  const places = createFairSemaphore(MAX_READS, {
    clock,
    maxWaiting: MAX_WAITING,
    maxWaitingPerOwner: MAX_WAITING_PER_CALLER,
    createRejection: () =>
      new ServiceError('overloaded', {
        detail: 'Too many searches of the past are running.',
        retry_after: 1,
      }),
  })
  return async (caller, read) => {
    const leave = await places.acquire(caller, { timeoutMs: MAX_WAIT_MS })
    try {
      return await read()
    } finally {
      leave()
    }
  }
}
