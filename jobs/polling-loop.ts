export interface PollingLoop {
  start(): void
  /** Another round soon: after what gathers meanwhile, and after the one that runs. */
  wake(): void
  /** Ends with the round that runs, which is told. */
  stop(): Promise<void>
}

export interface PollingLoopOptions {
  /** Asks whether the service stops: a round that finds more and more to do has to end then. */
  readonly work: (stopping: () => boolean) => Promise<void>
  /** Without being woken it looks so often. */
  readonly everyMs: number
  /** A wake waits so long for others. */
  readonly wakeDelayMs?: number
  /** Of rounds in a row that fail, the first; and once it works again, null. */
  readonly log: (error: unknown) => void
}

/** Tells with these words that rounds fail, and that they work again. */
export const createFailureTransitionLog =
  (log: (message: string, error: unknown) => void, ill: string, well: string) =>
  (error: unknown): void =>
    error === null ? log(well, null) : log(ill, error)

/**
 * Work that is done again and again on each node, never twice at once here. What it works on are rows
 * that say for themselves what is due: a wake that is lost costs one pause.
 */
export function createPollingLoop({
  work,
  everyMs,
  wakeDelayMs = 0,
  log,
}: PollingLoopOptions): PollingLoop {
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | null = null
  let woken = false
  let stopped = true
  let failing = false

  async function round(): Promise<void> {
    woken = false
    try {
      await work(() => stopped)
      if (failing) log(null)
      failing = false
    } catch (error) {
      // Once, and not each second: a database that is away is one thing to say.
      if (!failing) log(error)
      failing = true
    }
  }

  function run(): void {
    running = round().finally(() => {
      running = null
      wait(woken && !failing ? wakeDelayMs : everyMs)
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
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
