import type { Clock } from '../core/clock.ts'

/** Where the database's clock is read. */
interface DatabaseClock {
  clockOffset(localNow: () => number): Promise<number>
}

/** Keeps a clock to the database's time (decision 28). */
export interface DatabaseTimeSync {
  /** Measures until it has a value to rely on; rejects where the database does not answer. */
  syncInitially(): Promise<void>
  /** Measures once, or waits for the measurement that runs. */
  sync(): Promise<void>
  /** Measures where this machine has slept, its wall clock was set, or the last measurement failed. */
  syncIfNeeded(): Promise<void>
}

export function createDatabaseTimeSync(clock: Clock, store: DatabaseClock): DatabaseTimeSync {
  let running: Promise<boolean> | null = null
  // A measurement that fails is still owed: the anchor has been moved by then.
  let owed = false

  /** False where the machine slept between the question and the answer: their distance tells nothing. */
  async function ask(): Promise<boolean> {
    owed = true
    clock.setJumpBaseline()
    const ahead = await store.clockOffset(() => clock.now())
    if (clock.hasJumped()) return false
    clock.adjust(ahead)
    owed = false
    return true
  }

  function once(): Promise<boolean> {
    running ??= ask().finally(() => {
      running = null
    })
    return running
  }

  return {
    async syncInitially() {
      while (!(await once()));
    },
    async sync() {
      await once()
    },
    async syncIfNeeded() {
      if (owed || clock.hasJumped()) await once()
    },
  }
}
