import { setTimeout as pause } from 'node:timers/promises'
import { SECOND } from '../core/clock.ts'
import { within } from '../persistence/within.ts'
import type { Backend, BackendWorker } from './backends.ts'
import { here, type Here } from './here.ts'

export type JobData = Record<string, unknown>

/** Does what the row behind a hint wants. It reads the row first: the hint may be late, or come twice. */
export type Handler = (data: JobData, signal: AbortSignal) => Promise<void>

interface Line {
  readonly handle: Handler
  readonly here: Here
  worker: BackendWorker | null
}

const CONCURRENCY = 10
const GRACE_MS = 10 * SECOND
const CLOSE_MS = SECOND
const RAISE_MS = SECOND
/** What `setTimeout` takes at most. */
const MOST_DELAY_MS = 2 ** 31 - 1

/** The workers of this node, one a queue. */
export function workLines(
  backend: Pick<Backend, 'worker'>,
  log: (message: string, error: unknown) => void,
) {
  const lines = new Map<string, Line>()
  const running = new Set<Promise<void>>()
  const ending = new AbortController()
  let stopped = false

  async function run(name: string, handle: Handler, data: JobData): Promise<void> {
    if (stopped) throw new Error('this node stops')
    const work = handle(data, ending.signal).catch((error: unknown) => {
      log(`job of ${name} failed`, error)
      throw error
    })
    running.add(work)
    await work.finally(() => running.delete(work))
  }

  /** A worker whose first connection fails never works: it is made again. */
  async function raise(name: string, line: Line, concurrency: number): Promise<void> {
    while (!stopped) {
      const worker = backend.worker(name, (data) => run(name, line.handle, data), concurrency)
      line.worker = worker
      const made = await worker.ready().then(
        () => true,
        () => false,
      )
      if (made || stopped) return
      void within(worker.close(), CLOSE_MS)
      await pause(RAISE_MS, undefined, { ref: false })
    }
  }

  return {
    open(name: string, handle: Handler, concurrency = CONCURRENCY): void {
      if (lines.has(name)) throw new Error(`${name} has a worker on this node already`)
      const line: Line = { handle, here: here(concurrency), worker: null }
      lines.set(name, line)
      void raise(name, line, concurrency)
    },

    /** The queue is away, the rows are not: this node does it, if it has a worker for it. */
    doHere(name: string, id: string, data: JobData, delayMs: number): void {
      const line = lines.get(name)
      if (line === undefined) return
      const begin = () => line.here.run(id, () => run(name, line.handle, data))
      if (delayMs === 0) begin()
      else setTimeout(begin, Math.min(delayMs, MOST_DELAY_MS)).unref()
    },

    /** Takes no more, lets what runs end, and aborts it after ten seconds. */
    async stop(): Promise<void> {
      stopped = true
      const closing = [...lines.values()].map(async (line) => line.worker?.close())
      if (!(await within(Promise.allSettled([...running]), GRACE_MS))) ending.abort()
      await within(Promise.allSettled([...closing, ...running]), CLOSE_MS)
    },
  }
}
