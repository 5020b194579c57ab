import type { Clock } from '../core/clock.ts'

/** Where the database's clock is read. */
interface DatabaseClock {
  clockOffset(localNow: () => number): Promise<number>
}

/** Keeps a clock to the database's time (decision 28). */
export interface MeasuredClock {
  /** Measures until it has a value to rely on; rejects where the database does not answer. */
  first(): Promise<void>
  /** Measures once, or waits for the measurement that runs. */
  measure(): Promise<void>
  /** Measures where this machine has slept, its wall clock was set, or the last measurement failed. */
  measureIfNeeded(): Promise<void>
}

export function measuredClock(clock: Clock, store: DatabaseClock): MeasuredClock {
  let running: Promise<boolean> | null = null
  // A measurement that fails is still owed: the anchor has been moved by then.
  let owed = false

  /** False where the machine slept between the question and the answer: their distance tells nothing. */
  async function ask(): Promise<boolean> {
    owed = true
    clock.anchor()
    const ahead = await store.clockOffset(() => clock.now())
    if (clock.disturbed()) return false
    clock.correct(ahead)
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
    async first() {
      while (!(await once()));
    },
    async measure() {
      await once()
    },
    async measureIfNeeded() {
      if (owed || clock.disturbed()) await once()
    },
  }
}
