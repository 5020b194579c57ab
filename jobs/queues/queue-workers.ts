import { setTimeout as pause } from 'node:timers/promises'
import { SECOND } from '../../core/clock.ts'
import { succeedsWithin } from '../../persistence/query-timeout.ts'
import type { BullmqQueueBackend, BullmqBackendWorker } from './bullmq-backends.ts'
import {
  createLocalFallbackJobQueue,
  type LocalFallbackJobQueue,
} from './local-fallback-job-queue.ts'

/** The queue workers of this node. */

export type JobPayload = Record<string, unknown>

/** Processes a job. Must read the row first: the hint may be late or repeated. */
export type JobHandler = (data: JobPayload, signal: AbortSignal) => Promise<void>

interface QueueWorker {
  readonly handle: JobHandler
  readonly localQueue: LocalFallbackJobQueue
  worker: BullmqBackendWorker | null
}

const DEFAULT_CONCURRENCY = 10
const SHUTDOWN_GRACE_MS = 10 * SECOND
const CLOSE_TIMEOUT_MS = SECOND
const WORKER_RETRY_MS = SECOND
/** Maximum delay of `setTimeout`. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Creates one worker per queue on this node. */
export function createQueueWorkers(
  backend: Pick<BullmqQueueBackend, 'worker'>,
  log: (message: string, error: unknown) => void,
) {
  const queueWorkers = new Map<string, QueueWorker>()
  const running = new Set<Promise<void>>()
  const ending = new AbortController()
  let stopped = false

  async function run(name: string, handle: JobHandler, data: JobPayload): Promise<void> {
    if (stopped) throw new Error('this node stops')
    const work = handle(data, ending.signal).catch((error: unknown) => {
      log(`job of ${name} failed`, error)
      throw error
    })
    running.add(work)
    await work.finally(() => running.delete(work))
  }

  /** A worker never recovers from a failed first connection, so it is created again. */
  async function startWorker(
    name: string,
    queueWorker: QueueWorker,
    concurrency: number,
  ): Promise<void> {
    while (!stopped) {
      const worker = backend.worker(
        name,
        (data) => run(name, queueWorker.handle, data),
        concurrency,
      )
      queueWorker.worker = worker
      const made = await worker.ready().then(
        () => true,
        () => false,
      )
      if (made || stopped) return
      void succeedsWithin(worker.close(), CLOSE_TIMEOUT_MS)
      await pause(WORKER_RETRY_MS, undefined, { ref: false })
    }
  }

  return {
    open(name: string, handle: JobHandler, concurrency = DEFAULT_CONCURRENCY): void {
      if (queueWorkers.has(name)) throw new Error(`${name} has a worker on this node already`)
      const queueWorker: QueueWorker = {
        handle,
        localQueue: createLocalFallbackJobQueue(concurrency),
        worker: null,
      }
      queueWorkers.set(name, queueWorker)
      void startWorker(name, queueWorker, concurrency)
    },

    /** Runs a job here while the queue is unreachable, if this node has a worker for it. */
    doHere(name: string, id: string, data: JobPayload, delayMs: number): void {
      const queueWorker = queueWorkers.get(name)
      if (queueWorker === undefined) return
      const begin = () => queueWorker.localQueue.run(id, () => run(name, queueWorker.handle, data))
      if (delayMs === 0) begin()
      else setTimeout(begin, Math.min(delayMs, MAX_TIMER_MS)).unref()
    },

    /** Stops taking jobs, waits ten seconds for running ones, then aborts them. */
    async stop(): Promise<void> {
      stopped = true
      const closing = [...queueWorkers.values()].map(async (queueWorker) =>
        queueWorker.worker?.close(),
      )
      if (!(await succeedsWithin(Promise.allSettled([...running]), SHUTDOWN_GRACE_MS)))
        ending.abort()
      await succeedsWithin(Promise.allSettled([...closing, ...running]), CLOSE_TIMEOUT_MS)
    },
  }
}
