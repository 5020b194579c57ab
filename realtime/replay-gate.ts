import type { OutboxStore } from '../persistence/outbox.ts'
import type { SignalStore } from '../persistence/signals.ts'

/** Reads of history at a time on a node: however many streams catch up, others find the database free. */
const READS_AT_ONCE = 4

export interface History {
  readonly signals: Pick<SignalStore, 'between' | 'crowded'>
  readonly outbox: Pick<OutboxStore, 'between' | 'oldest'>
}

/**
 * History as the streams of an agent that catch up may read it: a few pages at a time on the node, by
 * turns of the agents. A stream asks for one page at a time, so those of one agent take turns as well;
 * a reader that is slow holds no place.
 */
export function rationed({ signals, outbox }: History): (agentId: string) => History {
  const gated = gate(READS_AT_ONCE)
  return (agentId) => {
    const read = <T>(work: () => Promise<T>) => gated(agentId, work)
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

function gate(most: number) {
  /** Those who wait, by agent; the agent whose turn is next stands first. */
  const waiting = new Map<string, (() => void)[]>()
  let inside = 0

  const wait = (agentId: string) =>
    new Promise<void>((enter) => {
      const line = waiting.get(agentId) ?? []
      line.push(enter)
      waiting.set(agentId, line)
    })

  /** A place is handed on: nobody passes those who wait. */
  function leave(): void {
    const [first] = waiting
    if (first === undefined) {
      inside -= 1
      return
    }
    const [agentId, line] = first
    const next = line.shift()
    waiting.delete(agentId)
    if (line.length > 0) waiting.set(agentId, line)
    next?.()
  }

  return async <T>(agentId: string, work: () => Promise<T>): Promise<T> => {
    if (inside < most) inside += 1
    else await wait(agentId)
    try {
      return await work()
    } finally {
      leave()
    }
  }
}
