import { readFileSync } from 'node:fs'
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
   * time, memory or depth than it may; the thread may then have ended. The limit is processor time of the thread
   * (decision 381), because a request does not work while it waits for a busy machine; `WALL_FACTOR` times as long
   * ends it in any case.
   */
  run(request: unknown, limitMs: number): Promise<unknown>
  kill(): Promise<unknown>
}

/** A request took more time, memory or depth than its thread has. */
export class WorkerExhaustedError extends Error {}

/** Start timeout of a thread, for a very busy machine. */
const START_TIMEOUT_MS = 30 * SECOND
const WALL_FACTOR = 6
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
  let cpuPath: string | null = null
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
    ;[up, cpuPath] = [true, message.cpuPath]
    onReady()
  })

  async function run(request: unknown, limitMs: number): Promise<unknown> {
    worker.ref()
    const stopClock = startWorkClock(cpuPath, limitMs, () => void kill())
    const answered = new Promise<WorkerMessage>((resolve) => (onWord = resolve))
    worker.postMessage(request)
    const message = await Promise.race([answered, ended])
    stopClock()
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

/**
 * Calls `onSpent` once a thread has worked for `limitMs` from now on: by its processor time where it can be read, else
 * by wall time. Returns what stops it.
 */
function startWorkClock(path: string | null, limitMs: number, onSpent: () => void): () => void {
  const [before, since] = [readCpuMs(path), performance.now()]
  const leftMs = () => {
    const wallMs = performance.now() - since
    const now = readCpuMs(path)
    if (before === null || now === null) return limitMs - wallMs
    return Math.min(limitMs - (now - before), WALL_FACTOR * limitMs - wallMs)
  }
  const look = () => {
    const left = leftMs()
    if (left <= 0) return onSpent()
    timer = setTimeout(look, left)
  }
  let timer = setTimeout(look, limitMs)
  return () => clearTimeout(timer)
}

/** Processor time of a thread in milliseconds: the first number of its `schedstat`, in nanoseconds. */
function readCpuMs(path: string | null): number | null {
  if (path === null) return null
  try {
    return Number(readFileSync(path, 'utf8').split(' ')[0]) / 1e6
  } catch {
    return null
  }
}
