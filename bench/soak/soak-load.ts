import { setTimeout as pause } from 'node:timers/promises'

/** Runs kinds of work side by side, each at its own rate, until it is stopped. */

export interface SoakWork {
  readonly name: string
  readonly perSecond: number
  /** Does the work once; rejects when it fails. */
  run(count: number): Promise<unknown>
}

export interface SoakWorkCounts {
  readonly name: string
  readonly done: number
  readonly failed: number
  /** Left out because too much of it was still running. */
  readonly skipped: number
  readonly firstError: string | null
}

export interface SoakLoad {
  counts(): SoakWorkCounts[]
  /** Starts nothing more and waits for what runs. */
  stop(): Promise<SoakWorkCounts[]>
}

const TICK_MS = 10
/** More than this of one kind at once means that the station is behind. */
const MAX_RUNNING = 100

export function startSoakLoad(works: readonly SoakWork[]): SoakLoad {
  const lines = works.map((work) => startWork(work))
  const counts = () => lines.map((line) => line.counts())
  return {
    counts,
    async stop() {
      await Promise.all(lines.map((line) => line.stop()))
      return counts()
    },
  }
}

function startWork({ name, perSecond, run }: SoakWork) {
  let [started, done, failed, skipped, stopped] = [0, 0, 0, 0, false]
  let firstError: string | null = null
  const running = new Set<Promise<void>>()
  function begin(): void {
    started += 1
    if (running.size >= MAX_RUNNING) {
      skipped += 1
      return
    }
    const one = run(started)
      .then(
        () => void (done += 1),
        (error: unknown) => {
          failed += 1
          firstError ??= String(error)
        },
      )
      .finally(() => running.delete(one))
    running.add(one)
  }
  async function pace(): Promise<void> {
    const begunAt = performance.now()
    while (!stopped) {
      const due = Math.floor(((performance.now() - begunAt) / 1_000) * perSecond)
      while (started < due) begin()
      await pause(TICK_MS)
    }
  }
  const pacing = pace()
  return {
    counts: (): SoakWorkCounts => ({ name, done, failed, skipped, firstError }),
    async stop(): Promise<void> {
      stopped = true
      await pacing
      await Promise.all(running)
    },
  }
}
