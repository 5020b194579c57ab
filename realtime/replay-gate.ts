import type { OutboxStore } from '../persistence/outbox.ts'
import type { SignalStore } from '../persistence/signals.ts'

/** Reads of history at a time on a node: however many streams catch up, others find the database free. */
const READS_AT_ONCE = 4

export interface History {
  readonly signals: Pick<SignalStore, 'between' | 'crowded'>
  readonly outbox: Pick<OutboxStore, 'between' | 'oldest'>
}

/**
 * History as streams that catch up may read it: a few pages at a time, in the order they are asked for.
 * A stream asks for one page at a time, so they take turns; a reader that is slow holds no place.
 */
export function rationed({ signals, outbox }: History): History {
  const read = gate(READS_AT_ONCE)
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

function gate(most: number) {
  const waiting: (() => void)[] = []
  let inside = 0

  /** A place is handed on: nobody passes those who wait. */
  function leave(): void {
    const next = waiting.shift()
    if (next === undefined) inside -= 1
    else next()
  }

  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (inside < most) inside += 1
    else await new Promise<void>((enter) => waiting.push(enter))
    try {
      return await work()
    } finally {
      leave()
    }
  }
}
