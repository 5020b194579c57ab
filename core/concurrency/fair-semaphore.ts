import { createFairQueue, type FairQueueOptions, type FairQueueWaitOptions } from './fair-queue.ts'

/** A fixed number of places that callers hold for a while, in fair shares of their owners. */
export interface FairSemaphore {
  /** Waits for a place; what it answers gives the place back and is called once. */
  acquire(owner: string, options?: FairQueueWaitOptions): Promise<() => void>
  /** Refuses everybody who waits. */
  close(): void
}

export function createFairSemaphore(places: number, options: FairQueueOptions): FairSemaphore {
  const queue = createFairQueue<null>(options)
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
