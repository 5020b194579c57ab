import { SECOND } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import { createFairLeaseQueue, type FairQueueLease } from './fair-queue.ts'
import { startWorkerProcess, WorkerExhaustedError, type WorkerProcess } from './worker-process.ts'

/** Serves requests in worker processes, each with a heap limit and a deadline (decision 381). */

export interface WorkerPoolSettings<Request> {
  /** The address of the program, which calls `serveWorkerRequests`. */
  readonly program: string
  /** Maximum number of processes; two also on one processor, since a stranger holds one (decision 480). */
  readonly size?: number | undefined
  /** Limit per request in milliseconds of the process's work, without its start; after it the process is killed. */
  readonly deadlineMs: number
  /** Requests that wait, of all owners and of each. */
  readonly maxWaiting: number
  readonly maxWaitingOfOwner?: number
  /** What a request that exceeds time, memory or depth is answered with. */
  readonly exhausted: (request: Request, cause: WorkerExhaustedError) => Error
}

export interface WorkerPool<Request> {
  /**
   * Serves a request. An owner has one place: its next request waits until the one before has ended, while others
   * pass by turns. Rejects with `unavailable` when the queue is full, where the owner with the most waiting requests
   * loses one, and with the signal's reason.
   */
  run(request: Request, place: WorkerPlace): Promise<unknown>
  close(): Promise<void>
}

/** Whose work a request is (an agent, a visitor, a builder), and what ends its wait. */
export interface WorkerPlace {
  readonly owner: string
  readonly signal?: AbortSignal | undefined
}

const WORKERS = 2
/** An idle process is ended to free its memory. */
const IDLE_MS = 60 * SECOND

/**
 * Creates a pool whose processes start on demand. A request that takes too long or too much memory ends its process
 * and fails; other requests continue on another one.
 */
export function createWorkerPool<Request>(
  settings: WorkerPoolSettings<Request>,
): WorkerPool<Request> {
  const { program, size = WORKERS, deadlineMs, maxWaiting } = settings
  const workers = new Set<WorkerProcess>()
  const idle = new Map<WorkerProcess, NodeJS.Timeout>()
  let [starting, closed] = [0, false]
  /** Why no process starts. */
  let fault: Error | undefined
  const queue = createFairLeaseQueue<WorkerProcess>({
    clock: performanceClock,
    maxWaiting,
    maxWaitingPerOwner: settings.maxWaitingOfOwner ?? maxWaiting,
    places: size,
    maxHeldPerOwner: 1,
    createRejection: () =>
      closed ? poolClosedError() : new ServiceError('unavailable', { retry_after: 1 }, fault),
  })

  function serve(): void {
    for (const [worker, timer] of idle) {
      if (!queue.offer(worker)) return
      clearTimeout(timer)
      idle.delete(worker)
    }
    while (!closed && starting < queue.ready() && workers.size < size) void begin()
  }

  async function begin(): Promise<void> {
    const worker = startWorkerProcess(program)
    workers.add(worker)
    starting += 1
    void worker.ended.then(() => {
      workers.delete(worker)
      clearTimeout(idle.get(worker))
      idle.delete(worker)
      serve()
    })
    const works = await worker.ready
    starting -= 1
    if (works) return rest(worker)
    // The next process would not start either, so a waiting request fails.
    fault = new Error('no worker process starts')
    queue.rejectNext()
    fault = undefined
    serve()
  }

  function rest(worker: WorkerProcess): void {
    // The owner of its request has a place again: another process serves what waited for it.
    if (!worker.isFit()) {
      void worker.kill()
      return serve()
    }
    const leave = () => {
      idle.delete(worker)
      void worker.kill()
    }
    idle.set(worker, setTimeout(leave, IDLE_MS).unref())
    serve()
  }

  async function work(
    { value: worker, release }: FairQueueLease<WorkerProcess>,
    request: Request,
  ): Promise<unknown> {
    try {
      return await worker.run(request, deadlineMs)
    } catch (error) {
      if (closed) throw poolClosedError()
      throw error instanceof WorkerExhaustedError ? settings.exhausted(request, error) : error
    } finally {
      release()
      rest(worker)
    }
  }

  return {
    async run(request, { owner, signal }) {
      signal?.throwIfAborted()
      if (closed) throw poolClosedError()
      const waiting = queue.wait(owner, { signal })
      serve()
      return await orAbort(work(await waiting, request), signal)
    },
    async close() {
      closed = true
      while (queue.rejectNext());
      await Promise.all([...workers].map((worker) => worker.kill()))
    },
  }
}

const performanceClock = { mono: () => performance.now() }

/** What is being served is finished, though nobody waits for it. */
function orAbort<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error)
    signal.addEventListener('abort', abort, { once: true })
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

const poolClosedError = () => new Error('the worker processes have ended')
