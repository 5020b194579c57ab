/** A loop that polls the database and can be woken. */

export interface PollingLoop {
  start(): void
  /** Starts another round soon, after `wakeDelayMs` and after the running one. */
  wake(): void
  /** Another node may leave something to do: starts a round within `everyMs`. */
  expect(): void
  /** Ends after the running round, which sees `stopping()`. */
  stop(): Promise<void>
}

export interface PollingLoopOptions {
  /**
   * One round. A long round must end when `stopping()` is true. May return in how many milliseconds something
   * is due; the next round then starts at that time, but after `everyMs` and before `idleMs`.
   */
  readonly work: (stopping: () => boolean) => Promise<number | void>
  /** Milliseconds between rounds without a wake-up. */
  readonly everyMs: number
  /** The same at most, while nothing is due; default `everyMs`. */
  readonly idleMs?: number
  /** Delay after a wake-up, to collect more of them. Milliseconds. */
  readonly wakeDelayMs?: number
  /** Called with the error of the first failed round in a row, and with null after recovery. */
  readonly log: (error: unknown) => void
}

/** Logs `ill` for the first failure and `well` after recovery. */
export const createFailureTransitionLog =
  (log: (message: string, error: unknown) => void, ill: string, well: string) =>
  (error: unknown): void =>
    error === null ? log(well, undefined) : log(ill, error)

/**
 * Creates a loop whose rounds never overlap on this node. Rows in the database say what is due, so
 * a lost wake-up only delays work by one interval.
 */
export function createPollingLoop({
  work,
  everyMs,
  idleMs = everyMs,
  wakeDelayMs = 0,
  log,
}: PollingLoopOptions): PollingLoop {
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | null = null
  let woken = false
  let expected = false
  let stopped = true
  let failing = false

  /** Returns the milliseconds until the next round. */
  async function round(): Promise<number> {
    woken = false
    expected = false
    try {
      const dueIn = (await work(() => stopped)) ?? everyMs
      if (failing) log(null)
      failing = false
      return Math.min(Math.max(dueIn, everyMs), idleMs)
    } catch (error) {
      // Log an outage once and not every second.
      if (!failing) log(error)
      failing = true
      return everyMs
    }
  }

  function run(): void {
    running = round().then((ms) => {
      running = null
      if (woken && !failing) wait(wakeDelayMs)
      else wait(expected ? everyMs : ms)
    })
  }

  function wait(ms: number): void {
    if (stopped) return
    clearTimeout(timer)
    timer = setTimeout(run, ms)
    timer.unref()
  }

  return {
    start() {
      stopped = false
      run()
    },
    wake() {
      if (woken || stopped) return
      woken = true
      if (running === null) wait(wakeDelayMs)
    },
    expect() {
      if (expected || woken || stopped) return
      expected = true
      if (running === null) wait(everyMs)
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
