import { availableParallelism } from 'node:os'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { PageParser } from './page-parser-port.ts'
import { startPageParserWorker, type PageParserWorkerHandle } from './page-parser-worker-handle.ts'
import type {
  PageParserWorkerAnswers,
  PageParserWorkerRequest,
} from './page-parser-worker-thread.ts'

/** Parses untrusted pages in worker threads. */

export interface PageParserPoolSettings {
  /** Maximum number of threads. */
  readonly size?: number
  /** Limit per page in milliseconds; after it the thread is terminated. */
  readonly deadlineMs?: number
}

export interface ClosablePageParser extends PageParser {
  close(): Promise<void>
}

interface PageJob {
  readonly errand: PageParserWorkerRequest
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

const MAX_WAITING_PAGES = 64
const MAX_PAGE_THREADS = 2
const PAGE_DEADLINE_MS = 5 * SECOND
/** An idle thread is ended to free its memory. */
const IDLE_MS = 60 * SECOND

/**
 * Creates a pool of page threads that start on demand. A page that takes too long or too much memory ends its
 * thread and fails; other pages continue on another thread.
 */
export function createPageParserPool(settings: PageParserPoolSettings = {}): ClosablePageParser {
  const { size = defaultThreadCount(), deadlineMs = PAGE_DEADLINE_MS } = settings
  const threads = new Set<PageParserWorkerHandle>()
  const idle = new Map<PageParserWorkerHandle, NodeJS.Timeout>()
  const waiting: PageJob[] = []
  let [starting, closed] = [0, false]

  function serve(): void {
    for (const [thread, rest] of idle) {
      const job = waiting.shift()
      if (job === undefined) return
      clearTimeout(rest)
      idle.delete(thread)
      void give(thread, job)
    }
    while (!closed && starting < waiting.length && threads.size < size) void begin()
  }

  async function begin(): Promise<void> {
    const thread = startPageParserWorker()
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
    waiting.shift()?.reject(new Error('no page thread starts'))
    serve()
  }

  function rest(thread: PageParserWorkerHandle): void {
    if (!thread.isAlive()) return
    const leave = () => {
      idle.delete(thread)
      void thread.kill()
    }
    idle.set(thread, setTimeout(leave, IDLE_MS).unref())
    serve()
  }

  async function give(
    thread: PageParserWorkerHandle,
    { errand: request, resolve, reject }: PageJob,
  ): Promise<void> {
    try {
      resolve(await thread.run(request, deadlineMs))
    } catch (error) {
      reject(closed ? pageReaderClosedError() : error)
    }
    rest(thread)
  }

  async function submit<E extends PageParserWorkerRequest>(request: E, signal: AbortSignal) {
    signal.throwIfAborted()
    if (closed) throw pageReaderClosedError()
    if (waiting.length >= MAX_WAITING_PAGES)
      throw new ServiceError('unavailable', { retry_after: 1 })
    const answer = enqueueJob(request, signal, waiting)
    serve()
    return (await answer) as PageParserWorkerAnswers[E['type']]
  }

  return {
    read: (source, signal) => submit({ type: 'read', source }, signal),
    forms: (source, signal) => submit({ type: 'forms', source }, signal),
    extract: (source, what, signal) => submit({ type: 'extract', source, what }, signal),
    decodeText: (source, most, signal) => submit({ type: 'plain', source, most }, signal),
    async close() {
      closed = true
      for (const job of waiting.splice(0)) job.reject(pageReaderClosedError())
      await Promise.all([...threads].map((thread) => thread.kill()))
    },
  }
}

/** Queues a job. An abort removes it; a page that is being parsed is finished. */
function enqueueJob(request: PageParserWorkerRequest, signal: AbortSignal, waiting: PageJob[]) {
  const { promise: answer, resolve, reject } = withResolvers()
  const abort = () => {
    const at = waiting.indexOf(job)
    if (at >= 0) waiting.splice(at, 1)
    reject(signal.reason)
  }
  const settle = (end: (what: unknown) => void) => (what: unknown) => {
    signal.removeEventListener('abort', abort)
    end(what)
  }
  const job: PageJob = { errand: request, resolve: settle(resolve), reject: settle(reject) }
  signal.addEventListener('abort', abort, { once: true })
  waiting.push(job)
  return answer
}

function withResolvers() {
  let resolve: (value: unknown) => void = () => {}
  let reject: (reason: unknown) => void = () => {}
  const promise = new Promise<unknown>((done, fail) => {
    resolve = done
    reject = fail
  })
  return { promise, resolve, reject }
}

const defaultThreadCount = () => Math.min(MAX_PAGE_THREADS, Math.max(1, availableParallelism() - 1))

const pageReaderClosedError = () => new Error('the page threads have ended')
