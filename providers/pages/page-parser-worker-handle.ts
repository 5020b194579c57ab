import { Worker } from 'node:worker_threads'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type {
  PageParserWorkerRequest,
  PageParserWorkerMessage,
} from './page-parser-worker-thread.ts'

/** A thread that parses one page at a time. An idle one does not keep the process alive. */
export interface PageParserWorkerHandle {
  /** Resolves to true once it has started, to false where it ended before. */
  readonly ready: Promise<boolean>
  readonly ended: Promise<void>
  readonly isAlive: () => boolean
  /** Parses a page. Rejects with `upstream_error` where it exceeds the limits; the thread has then ended. */
  run(request: PageParserWorkerRequest, deadlineMs: number): Promise<unknown>
  kill(): Promise<unknown>
}

/** Start timeout of a thread, for a very busy machine. */
const WORKER_START_TIMEOUT_MS = 20 * SECOND
const WORKER_RESOURCE_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32 }

/** The worker is beside this file and, like it, built or source. */
const BUILT = !import.meta.url.endsWith('.ts')
const WORKER_URL = new URL(
  BUILT ? './page-parser-worker-thread.js' : './page-parser-worker-thread.ts',
  import.meta.url,
).href

/** From source a thread must load the compiler itself: it inherits no loader (tsx, tap). */
const SOURCE_BOOTSTRAP = `
const [compiler, program] = require('node:worker_threads').workerData
import(compiler).then(({ register }) => (register(), import(program)))`

function startWorker(): Worker {
  // Without what this process preloads.
  const options = { execArgv: [], resourceLimits: WORKER_RESOURCE_LIMITS }
  if (BUILT) return new Worker(new URL(WORKER_URL), options)
  const workerData = [import.meta.resolve('tsx/esm/api'), WORKER_URL]
  return new Worker(SOURCE_BOOTSTRAP, { ...options, eval: true, workerData })
}

export function startPageParserWorker(): PageParserWorkerHandle {
  const worker = startWorker()
  const kill = () => worker.terminate()
  let [up, alive] = [false, true]
  let cause: unknown
  let onReady = () => {}
  let onWord: (message: PageParserWorkerMessage) => void = () => {}

  const ended = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      alive = false
      resolve()
    })
  })
  const late = setTimeout(() => void kill(), WORKER_START_TIMEOUT_MS)
  const told = new Promise<void>((resolve) => (onReady = resolve))
  const ready = Promise.race([told, ended]).then(() => {
    clearTimeout(late)
    return up
  })
  worker.on('error', (error) => (cause = error))
  worker.on('message', (message: PageParserWorkerMessage) => {
    if (message.type !== 'ready') return onWord(message)
    up = true
    onReady()
  })

  async function run(request: PageParserWorkerRequest, deadlineMs: number): Promise<unknown> {
    worker.ref()
    const deadline = setTimeout(() => void kill(), deadlineMs)
    const answered = new Promise<PageParserWorkerMessage>((resolve) => (onWord = resolve))
    worker.postMessage(request)
    const message = await Promise.race([answered, ended])
    clearTimeout(deadline)
    worker.unref()
    if (message === undefined) throw pageTooComplexError(request, deadlineMs, cause)
    // Nesting or length beyond any page that a browser could show.
    if (message.type === 'failed' && message.error instanceof RangeError)
      throw pageTooComplexError(request, deadlineMs, message.error)
    if (message.type === 'failed') throw message.error
    return message.type === 'done' ? message.answer : null
  }

  return { ready, ended, isAlive: () => alive, run, kill }
}

const pageTooComplexError = (
  { source }: PageParserWorkerRequest,
  deadlineMs: number,
  cause: unknown,
) =>
  new ServiceError(
    'upstream_error',
    {
      host: new URL(source.url).hostname,
      reason: 'page_too_complex',
      detail: `This page takes more than ${deadlineMs / SECOND} s or too much memory to read.`,
    },
    cause,
  )
