import { HOUR, type Clock } from '../core/clock.ts'
import type { OutboxStore } from '../persistence/outbox-store.ts'
import type { AgentEventStorageStart } from './stream-catch-up.ts'

/** Agents whose events are stored because a stream of this node is open (decision 189). */

export interface AgentEventStorageLease extends AgentEventStorageStart {
  release(): void
}

interface HeardStream extends AgentEventStorageStart {
  readonly end: () => void
}

/** Their rows outlive an event by two days, so that an hour more or less does not matter. */
const KEEP_EVERY_MS = HOUR

export function createAgentEventStorageLeases(
  outbox: Pick<OutboxStore, 'keepListening'>,
  clock: Pick<Clock, 'mono'>,
) {
  const streams = new Set<HeardStream>()
  let keptAt = clock.mono()
  return {
    add(mark: AgentEventStorageStart, end: () => void): AgentEventStorageLease {
      const stream = { ...mark, end }
      streams.add(stream)
      return { ...mark, release: () => void streams.delete(stream) }
    },

    /** Prolongs the rows of open streams, and ends a stream whose row was gone in between. */
    async keep(): Promise<void> {
      if (streams.size === 0 || clock.mono() - keptAt < KEEP_EVERY_MS) return
      keptAt = clock.mono()
      const open = [...streams]
      const lost = await outbox.keepListening([...new Set(open.map(({ agentId }) => agentId))])
      for (const { agentId, lostThrough, end } of open)
        if ((lost.get(agentId) ?? lostThrough) !== lostThrough) end()
    },
  }
}
