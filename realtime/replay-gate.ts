import type { Clock } from '../core/clock.ts'
import { createFairPlaces } from '../core/fair-places.ts'
import type { OutboxStore } from '../persistence/outbox.ts'
import type { SignalStore } from '../persistence/signals.ts'

/** Reads of history at a time on a node: however many streams catch up, others find the database free. */
const READS_AT_ONCE = 4

export interface History {
  readonly signals: Pick<SignalStore, 'between' | 'crowded'>
  readonly outbox: Pick<OutboxStore, 'between' | 'oldest'>
}

interface Rationed extends History {
  readonly clock: Pick<Clock, 'mono'>
}

/**
 * History as the streams of an agent that catch up may read it: a few pages at a time on the node, by
 * turns of the agents. A stream asks for one page at a time, so those of one agent take turns as well;
 * a reader that is slow holds no place.
 */
export function rationed({ clock, signals, outbox }: Rationed): (agentId: string) => History {
  const places = createFairPlaces(READS_AT_ONCE, {
    clock,
    // An agent has a bounded number of streams, and each reads one page at a time.
    maxWaiting: Infinity,
    maxWaitingPerOwner: Infinity,
    refusal: () => new Error('no read is refused'),
  })
  return (agentId) => {
    async function read<T>(work: () => Promise<T>): Promise<T> {
      const leave = await places.enter(agentId)
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
