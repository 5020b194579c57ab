/** Work of one queue that this node does by itself. */
export interface LocalQueue {
  /** Does it now or when others have ended; nothing where it is under way or too much waits. */
  run(id: string, work: () => Promise<void>): void
}

const MAX_WAITING_JOBS = 1_000

/**
 * What is done while the queue cannot be reached: each id once at a time, so many at once. What does
 * not fit is left to the sweeper of its rows.
 */
export function createLocalQueue(atOnce: number): LocalQueue {
  const waiting = new Map<string, () => Promise<void>>()
  const running = new Set<string>()

  function begin(): void {
    for (const [id, work] of waiting) {
      if (running.size >= atOnce) return
      waiting.delete(id)
      running.add(id)
      // Its failure has been logged; the row says what is left.
      void work()
        .catch(() => {})
        .finally(() => {
          running.delete(id)
          begin()
        })
    }
  }

  return {
    run(id, work) {
      if (running.has(id) || waiting.size >= MAX_WAITING_JOBS) return
      waiting.set(id, work)
      begin()
    },
  }
}
