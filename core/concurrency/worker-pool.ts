import { availableParallelism } from 'node:os'
import { SECOND } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import { startWorkerProcess, WorkerExhaustedError, type WorkerProcess } from './worker-process.ts'

/** Serves requests in worker processes, each with a heap limit and a deadline (decision 381). */

export interface WorkerPoolSettings<Request> {
  /** The address of the program, which calls `serveWorkerRequests`. */
  readonly program: string
  /** Maximum number of processes. */
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

const MAX_WORKERS = 2
/** An idle process is ended to free its memory. */
const IDLE_MS = 60 * SECOND

export const defaultWorkerCount = (max = MAX_WORKERS): number =>
  Math.min(max, Math.max(1, availableParallelism() - 1))

/**
 * Creates a pool whose processes start on demand. A request that takes too long or too much memory ends its process
 * and fails; other requests continue on another one.
 */
export function createWorkerPool<Request>(
  settings: WorkerPoolSettings<Request>,
): WorkerPool<Request> {
  const { program, size = defaultWorkerCount(), deadlineMs, maxWaiting } = settings
  const { maxWaitingOfOwner = maxWaiting } = settings
  const workers = new Set<WorkerProcess>()
  const idle = new Map<WorkerProcess, NodeJS.Timeout>()
  const waiting: Job<Request>[] = []
  /** Owners whose request is being served. */
  const served = new Set<string>()
  let [starting, closed] = [0, false]

  const isReady = ({ owner }: Job<Request>) => owner === null || !served.has(owner)

  function serve(): void {
    for (const [worker, timer] of idle) {
      const at = waiting.findIndex(isReady)
      const [job] = at < 0 ? [] : waiting.splice(at, 1)
      if (job === undefined) return
      clearTimeout(timer)
      idle.delete(worker)
      void give(worker, job)
    }
    const wanted = waiting.filter(isReady).length
    while (!closed && starting < wanted && workers.size < size) void begin()
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
    // The next process would not start either, so the longest waiting job fails.
    const cause = new Error('no worker process starts')
    waiting.shift()?.reject(new ServiceError('unavailable', { retry_after: 1 }, cause))
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

  async function give(worker: WorkerProcess, job: Job<Request>): Promise<void> {
    const { request, owner, resolve, reject } = job
    if (owner !== null) served.add(owner)
    try {
      resolve(await worker.run(request, deadlineMs))
    } catch (error) {
      if (closed) reject(poolClosedError())
      else
        reject(error instanceof WorkerExhaustedError ? settings.exhausted(request, error) : error)
    }
    if (owner !== null) served.delete(owner)
    rest(worker)
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
      await Promise.all([...workers].map((worker) => worker.kill()))
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

const poolClosedError = () => new Error('the worker processes have ended')
