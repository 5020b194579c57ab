import { Worker } from 'node:worker_threads'
import { SECOND } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import type { WorkerMessage } from './serve-worker-requests.ts'

/** A thread that serves one request at a time. An idle one does not keep the process alive. */
export interface WorkerThread {
  /** Resolves to true once it has started, to false where it ended before. */
  readonly ready: Promise<boolean>
  readonly ended: Promise<void>
  readonly isAlive: () => boolean
  /**
   * Serves a request. Rejects with what its program has thrown, and with `WorkerExhaustedError` where it takes more
   * time, memory or depth than it may; the thread may then have ended.
   */
  run(request: unknown, deadlineMs: number): Promise<unknown>
  kill(): Promise<unknown>
}

/** A request took more time, memory or depth than its thread has. */
export class WorkerExhaustedError extends Error {}

/** Start timeout of a thread, for a very busy machine. */
const START_TIMEOUT_MS = 20 * SECOND
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32 }

/** From source a thread must load the compiler itself: it inherits no loader (tsx, tap). */
const SOURCE_BOOTSTRAP = `
const [compiler, program] = require('node:worker_threads').workerData
import(compiler).then(({ register }) => (register(), import(program)))`

/** Starts the program of an address in a thread of its own; a file of source needs the compiler. */
export function startWorkerProgram(
  program: string,
  limits: { readonly resourceLimits?: typeof RESOURCE_LIMITS } = {},
): Worker {
  // Without what this process preloads.
  const options = { execArgv: [], ...limits }
  if (!program.endsWith('.ts')) return new Worker(new URL(program), options)
  const workerData = [import.meta.resolve('tsx/esm/api'), program]
  return new Worker(SOURCE_BOOTSTRAP, { ...options, eval: true, workerData })
}

export function startWorkerThread(program: string): WorkerThread {
  const worker = startWorkerProgram(program, { resourceLimits: RESOURCE_LIMITS })
  const kill = () => worker.terminate()
  let [up, alive] = [false, true]
  let cause: unknown
  let onReady = () => {}
  let onWord: (message: WorkerMessage) => void = () => {}

  const ended = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      alive = false
      resolve()
    })
  })
  const late = setTimeout(() => void kill(), START_TIMEOUT_MS)
  const told = new Promise<void>((resolve) => (onReady = resolve))
  const ready = Promise.race([told, ended]).then(() => {
    clearTimeout(late)
    return up
  })
  worker.on('error', (error) => (cause = error))
  worker.on('message', (message: WorkerMessage) => {
    if (message.type !== 'ready') return onWord(message)
    up = true
    onReady()
  })

  async function run(request: unknown, deadlineMs: number): Promise<unknown> {
    worker.ref()
    const deadline = setTimeout(() => void kill(), deadlineMs)
    const answered = new Promise<WorkerMessage>((resolve) => (onWord = resolve))
    worker.postMessage(request)
    const message = await Promise.race([answered, ended])
    clearTimeout(deadline)
    worker.unref()
    if (message === undefined) throw new WorkerExhaustedError('the thread has ended', { cause })
    if (message.type === 'refused') throw new ServiceError(message.code, message.details)
    if (message.type === 'failed' && !(message.error instanceof RangeError)) throw message.error
    if (message.type === 'failed')
      throw new WorkerExhaustedError('too deep or too long', { cause: message.error })
    return message.type === 'done' ? message.answer : null
  }

  return { ready, ended, isAlive: () => alive, run, kill }
}
