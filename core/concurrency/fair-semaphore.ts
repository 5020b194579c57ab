import {
  createFairLeaseQueue,
  type FairLeaseQueueOptions,
  type FairQueueWaitOptions,
} from './fair-queue.ts'

/** A fixed number of slots, shared fairly between owners. */
export interface FairSemaphore {
  /** Waits for a slot. Returns the release function; call it once. */
  acquire(owner: string, options?: FairQueueWaitOptions): Promise<() => void>
  /** Rejects all waiting callers. */
  close(): void
}

export function createFairSemaphore(
  places: number,
  options: Omit<FairLeaseQueueOptions, 'places'>,
): FairSemaphore {
  const queue = createFairLeaseQueue<null>({ ...options, places })
  let free = places

  function serve(): void {
    while (free > 0 && queue.offer(null)) free -= 1
  }

  return {
    async acquire(owner, wait) {
      const turn = queue.wait(owner, wait)
      serve()
      const { release } = await turn
      return () => {
        release()
        free += 1
        serve()
      }
    },
    close() {
      while (queue.rejectNext());
    },
  }
}
