import { availableParallelism } from 'node:os'
import { SECOND } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import { startWorkerThread, WorkerExhaustedError, type WorkerThread } from './worker-thread.ts'

/** Serves requests in worker threads, each with a heap limit and a deadline (decision 381). */

export interface WorkerPoolSettings<Request> {
  /** The address of the program, which calls `serveWorkerRequests`. */
  readonly program: string
  /** Maximum number of threads. */
  readonly size?: number | undefined
  /** Limit per request in milliseconds of the thread's work, without its start; after it the thread is terminated. */
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
   * pass. Rejects with `unavailable` when the queue is full, and with the signal's reason.
   */
  run(request: Request, place: WorkerPlace): Promise<unknown>
  close(): Promise<void>
}

export interface WorkerPlace {
  /** Null for requests that have no owner: they bound nobody. */
  readonly owner: string | null
  readonly signal?: AbortSignal | undefined
}

interface Job<Request> {
  readonly request: Request
  readonly owner: string | null
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

const MAX_THREADS = 2
/** An idle thread is ended to free its memory. */
const IDLE_MS = 60 * SECOND

export const defaultThreadCount = (max = MAX_THREADS): number =>
  Math.min(max, Math.max(1, availableParallelism() - 1))

/**
 * Creates a pool whose threads start on demand. A request that takes too long or too much memory ends its thread and
 * fails; other requests continue on another thread.
 */
export function createWorkerPool<Request>(
  settings: WorkerPoolSettings<Request>,
): WorkerPool<Request> {
  const { program, size = defaultThreadCount(), deadlineMs, maxWaiting } = settings
  const { maxWaitingOfOwner = maxWaiting } = settings
  const threads = new Set<WorkerThread>()
  const idle = new Map<WorkerThread, NodeJS.Timeout>()
  const waiting: Job<Request>[] = []
  /** Owners whose request is being served. */
  const served = new Set<string>()
  let [starting, closed] = [0, false]

  const isReady = ({ owner }: Job<Request>) => owner === null || !served.has(owner)

  function serve(): void {
    for (const [thread, timer] of idle) {
      const at = waiting.findIndex(isReady)
      const [job] = at < 0 ? [] : waiting.splice(at, 1)
      if (job === undefined) return
      clearTimeout(timer)
      idle.delete(thread)
      void give(thread, job)
    }
    const wanted = waiting.filter(isReady).length
    while (!closed && starting < wanted && threads.size < size) void begin()
  }

  async function begin(): Promise<void> {
    const thread = startWorkerThread(program)
    threads.add(thread)
    starting += 1
    void thread.ended.then(() => {
      threads.delete(thread)
      clearTimeout(idle.get(thread))
      idle.delete(thread)
      serve()
    })
    const works = await thread.ready
    starting -= 1
    if (works) return rest(thread)
    // The next thread would not start either, so the longest waiting job fails.
    waiting.shift()?.reject(new Error('no worker thread starts'))
    serve()
  }

  function rest(thread: WorkerThread): void {
    // The owner of its request has a place again: another thread serves what waited for it.
    if (!thread.isAlive()) return serve()
    const leave = () => {
      idle.delete(thread)
      void thread.kill()
    }
    idle.set(thread, setTimeout(leave, IDLE_MS).unref())
    serve()
  }

  async function give(thread: WorkerThread, job: Job<Request>): Promise<void> {
    const { request, owner, resolve, reject } = job
    if (owner !== null) served.add(owner)
    try {
      resolve(await thread.run(request, deadlineMs))
    } catch (error) {
      if (closed) reject(poolClosedError())
      else
        reject(error instanceof WorkerExhaustedError ? settings.exhausted(request, error) : error)
    }
    if (owner !== null) served.delete(owner)
    rest(thread)
  }

  return {
    async run(request, { owner, signal }) {
      signal?.throwIfAborted()
      if (closed) throw poolClosedError()
      const own = owner === null ? 0 : waiting.filter((job) => job.owner === owner).length
      if (waiting.length >= maxWaiting || own >= maxWaitingOfOwner)
        throw new ServiceError('unavailable', { retry_after: 1 })
      const answer = enqueueJob(request, owner, signal, waiting)
      serve()
      return await answer
    },
    async close() {
      closed = true
      for (const job of waiting.splice(0)) job.reject(poolClosedError())
      await Promise.all([...threads].map((thread) => thread.kill()))
    },
  }
}

/** Queues a job. An abort removes it; one that is being served is finished. */
function enqueueJob<Request>(
  request: Request,
  owner: string | null,
  signal: AbortSignal | undefined,
  waiting: Job<Request>[],
): Promise<unknown> {
  return new Promise((done, fail) => {
    const abort = () => {
      const at = waiting.indexOf(job)
      if (at >= 0) waiting.splice(at, 1)
      job.reject(signal?.reason)
    }
    const settle = (end: (what: unknown) => void) => (what: unknown) => {
      signal?.removeEventListener('abort', abort)
      end(what)
    }
    const job: Job<Request> = { request, owner, resolve: settle(done), reject: settle(fail) }
    signal?.addEventListener('abort', abort, { once: true })
    waiting.push(job)
  })
}

const poolClosedError = () => new Error('the worker threads have ended')
