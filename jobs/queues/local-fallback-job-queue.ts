/** Jobs of one queue that this node runs by itself. */
export interface LocalFallbackJobQueue {
  /**
   * Runs a job now or when others have ended. Ignores ids that are running and jobs above the
   * limit.
   */
  run(id: string, work: () => Promise<void>): void
}

const MAX_WAITING_JOBS = 1_000

/**
 * Runs jobs while the queue is unreachable, each id once at a time, `atOnce` in parallel. The
 * sweeper finds jobs above the limit.
 */
export function createLocalFallbackJobQueue(atOnce: number): LocalFallbackJobQueue {
  const waiting = new Map<string, () => Promise<void>>()
  const running = new Set<string>()

  function begin(): void {
    for (const [id, work] of waiting) {
      if (running.size >= atOnce) return
      waiting.delete(id)
      running.add(id)
      // The failure was logged already; the row keeps the state.
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
