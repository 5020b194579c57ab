import { Worker } from 'node:worker_threads'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { PageErrand, PageWord } from './worker.ts'

/** A thread that reads one page at a time. It does not keep the process alive while it reads none. */
export interface Thread {
  /** True once it is there; false where it ended before that. */
  readonly ready: Promise<boolean>
  readonly ended: Promise<void>
  readonly alive: () => boolean
  /** Rejects with `upstream_error` where the page is too much for it; then it has ended. */
  run(errand: PageErrand, deadlineMs: number): Promise<unknown>
  kill(): Promise<unknown>
}

/** Of a thread to come up, on a machine that is very busy. */
const START_MS = 20 * SECOND
const LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32 }

/** The program of a thread stands beside this file, in the form this file is in. */
const BUILT = !import.meta.url.endsWith('.ts')
const PROGRAM = new URL(BUILT ? './worker.js' : './worker.ts', import.meta.url).href

/** From source a thread has to load the compiler by itself: it inherits none (tsx, tap). */
const FROM_SOURCE = `
const [compiler, program] = require('node:worker_threads').workerData
import(compiler).then(({ register }) => (register(), import(program)))`

function startWorker(): Worker {
  if (BUILT) return new Worker(new URL(PROGRAM), { resourceLimits: LIMITS })
  const workerData = [import.meta.resolve('tsx/esm/api'), PROGRAM]
  return new Worker(FROM_SOURCE, { eval: true, execArgv: [], workerData, resourceLimits: LIMITS })
}

export function startThread(): Thread {
  const worker = startWorker()
  const kill = () => worker.terminate()
  let [up, alive] = [false, true]
  let cause: unknown
  let onReady = () => {}
  let onWord: (word: PageWord) => void = () => {}

  const ended = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      alive = false
      resolve()
    })
  })
  const late = setTimeout(() => void kill(), START_MS)
  const told = new Promise<void>((resolve) => (onReady = resolve))
  const ready = Promise.race([told, ended]).then(() => {
    clearTimeout(late)
    return up
  })
  worker.on('error', (error) => (cause = error))
  worker.on('message', (word: PageWord) => {
    if (word.type !== 'ready') return onWord(word)
    up = true
    onReady()
  })

  async function run(errand: PageErrand, deadlineMs: number): Promise<unknown> {
    worker.ref()
    const deadline = setTimeout(() => void kill(), deadlineMs)
    const answered = new Promise<PageWord>((resolve) => (onWord = resolve))
    worker.postMessage(errand)
    const word = await Promise.race([answered, ended])
    clearTimeout(deadline)
    worker.unref()
    if (word === undefined) throw tooMuch(errand, deadlineMs, cause)
    // Too deep, or too long for a pattern: no page that a browser could show is.
    if (word.type === 'failed' && word.error instanceof RangeError)
      throw tooMuch(errand, deadlineMs, word.error)
    if (word.type === 'failed') throw word.error
    return word.type === 'done' ? word.answer : null
  }

  return { ready, ended, alive: () => alive, run, kill }
}

const tooMuch = ({ source }: PageErrand, deadlineMs: number, cause: unknown) =>
  new ServiceError(
    'upstream_error',
    {
      host: new URL(source.url).hostname,
      reason: 'page_too_complex',
      detail: `This page takes more than ${deadlineMs / SECOND} s or too much memory to read.`,
    },
    cause,
  )
