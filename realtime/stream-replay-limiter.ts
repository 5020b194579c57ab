import type { Clock } from '../core/clock.ts'
import { createFairSemaphore } from '../core/concurrency/fair-semaphore.ts'
import type { OutboxStore } from '../persistence/outbox-store.ts'
import type { SignalStore } from '../persistence/realtime/channel-signal-store.ts'

/** Limits database reads of streams that catch up. */

/** Concurrent history reads per node, so that replays leave the database available. */
const MAX_CONCURRENT_READS = 4

export interface ReplayHistoryStores {
  readonly signals: Pick<SignalStore, 'between' | 'crowded'>
  readonly outbox: Pick<OutboxStore, 'between' | 'oldest'>
}

interface ReplayLimiterDeps extends ReplayHistoryStores {
  readonly clock: Pick<Clock, 'mono'>
}

/**
 * Returns the history of an agent with a limited number of concurrent reads per node, shared fairly
 * between agents. A stream reads one page at a time and holds no slot between pages.
 */
export function createStreamReplayLimiter({
  clock,
  signals,
  outbox,
}: ReplayLimiterDeps): (agentId: string) => ReplayHistoryStores {
  const slots = createFairSemaphore(MAX_CONCURRENT_READS, {
    clock,
    // Bounded by the number of streams: each reads one page at a time.
    maxWaiting: Infinity,
    maxWaitingPerOwner: Infinity,
    createRejection: () => new Error('no read is refused'),
  })
  return (agentId) => {
    async function read<T>(work: () => Promise<T>): Promise<T> {
      const leave = await slots.acquire(agentId)
      try {
        return await work()
      } finally {
        leave()
      }
    }
    return {
      signals: {
        crowded: (...args) => read(() => signals.crowded(...args)),
        between: (...args) => read(() => signals.between(...args)),
      },
      outbox: {
        oldest: () => outbox.oldest(),
        between: (...args) => read(() => outbox.between(...args)),
      },
    }
  }
}
