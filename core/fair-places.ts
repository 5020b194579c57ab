import { createFairQueue, type FairQueueOptions, type WaitOptions } from './fair-queue.ts'

/** A fixed number of places that callers hold for a while, in fair shares of their owners. */
export interface FairPlaces {
  /** Waits for a place; what it answers gives the place back and is called once. */
  enter(owner: string, options?: WaitOptions): Promise<() => void>
  /** Refuses everybody who waits. */
  close(): void
}

export function createFairPlaces(places: number, options: FairQueueOptions): FairPlaces {
  const queue = createFairQueue<null>(options)
  let free = places

  function serve(): void {
    while (free > 0 && queue.give(null)) free -= 1
  }

  return {
    async enter(owner, wait) {
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
      while (queue.refuseNext());
    },
  }
}
