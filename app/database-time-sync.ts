import type { Clock } from '../core/clock.ts'

/** Synchronizes a clock with the database clock. */

/** Reads the database clock. */
interface DatabaseClock {
  clockOffset(localNow: () => number): Promise<number>
}

/** Keeps a clock synchronized with the database (decision 28). */
export interface DatabaseTimeSync {
  /** Measures until a measurement is valid. Rejects when the database does not respond. */
  syncInitially(): Promise<void>
  /** Measures once, or waits for the running measurement. */
  sync(): Promise<void>
  /** Measures after a sleep, a set wall clock or a failed measurement. */
  syncIfNeeded(): Promise<void>
}

export function createDatabaseTimeSync(clock: Clock, store: DatabaseClock): DatabaseTimeSync {
  let running: Promise<boolean> | null = null
  // A failed measurement must be repeated: its baseline was set already.
  let owed = false

  /** Returns false when the machine slept during the request, which makes the result invalid. */
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
