import type { Clock } from '../core/clock.ts'
import { createFairSemaphore } from '../core/concurrency/fair-semaphore.ts'
import type { OutboxStore } from '../persistence/outbox-store.ts'
import type { SignalStore } from '../persistence/realtime/signal-store.ts'

/** Reads of history at a time on a node: however many streams catch up, others find the database free. */
const MAX_CONCURRENT_READS = 4

export interface ReplayHistory {
  readonly signals: Pick<SignalStore, 'between' | 'crowded'>
  readonly outbox: Pick<OutboxStore, 'between' | 'oldest'>
}

interface ReplayLimiterDeps extends ReplayHistory {
  readonly clock: Pick<Clock, 'mono'>
}

/**
 * History as the streams of an agent that catch up may read it: a few pages at a time on the node, by
 * turns of the agents. A stream asks for one page at a time, so those of one agent take turns as well;
 * a reader that is slow holds no place.
 */
export function createReplayLimiter({
  clock,
  signals,
  outbox,
}: ReplayLimiterDeps): (agentId: string) => ReplayHistory {
  const places = createFairSemaphore(MAX_CONCURRENT_READS, {
    clock,
    // An agent has a bounded number of streams, and each reads one page at a time.
    maxWaiting: Infinity,
    maxWaitingPerOwner: Infinity,
    createRejection: () => new Error('no read is refused'),
  })
  return (agentId) => {
    async function read<T>(work: () => Promise<T>): Promise<T> {
      const leave = await places.acquire(agentId)
      try {
        return await work()
      } finally {
        leave()
      }
    }
    return {
      signals: {
        crowded: (...asked) => read(() => signals.crowded(...asked)),
        between: (...asked) => read(() => signals.between(...asked)),
      },
      outbox: {
        oldest: () => outbox.oldest(),
        between: (...asked) => read(() => outbox.between(...asked)),
      },
    }
  }
}
