import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { MINUTE, SECOND } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import type { WorkerMessage } from './serve-worker-requests.ts'

/** A process that serves one request at a time. An idle one does not keep the station alive. */
export interface WorkerProcess {
  /** Resolves to true once it has started, to false where it ended before. */
  readonly ready: Promise<boolean>
  readonly ended: Promise<void>
  /** It serves further requests: it has neither ended nor used up its processor time. */
  readonly isFit: () => boolean
  /**
   * Serves a request. Rejects with what its program has thrown, and with `WorkerExhaustedError` where it takes more
   * time, memory or depth than it may; the process may then have ended. The limit is processor time of its program
   * (decision 381), because a request does not work while it waits for a busy machine; `WALL_FACTOR` times as long
   * ends it in any case.
   */
  run(request: unknown, limitMs: number): Promise<unknown>
  kill(): Promise<void>
}

/** A request took more time, memory or depth than its process has. */
export class WorkerExhaustedError extends Error {}

/** Start timeout of a process, for a very busy machine. */
const START_TIMEOUT_MS = 30 * SECOND
const WALL_FACTOR = 6
const HEAP_ARGUMENTS = ['--max-old-space-size=256', '--max-semi-space-size=16']
/** The system ends one that works for a station that was killed; before, it is replaced between two requests. */
const MAX_CPU_MS = 15 * MINUTE
const FIT_CPU_MS = 10 * MINUTE
/** A full heap ends in an abort, which must not leave a file of the size of the heap. */
const SHELL_SCRIPT = `ulimit -c 0; ulimit -t ${MAX_CPU_MS / SECOND}; exec "$@"`

export function startWorkerProcess(program: string): WorkerProcess {
  const child = spawn(
    '/bin/sh',
    ['-c', SHELL_SCRIPT, 'gas-station-worker', ...nodeCommand(program)],
    {
      cwd: '/',
      // Not this process's environment, which holds every secret of the station.
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'advanced',
    },
  )
  const cpuPath = findCpuPath(child.pid)
  let [up, alive, cpuMs] = [false, true, 0]
  let cause: unknown
  let onReady = () => {}
  let onWord: (message: WorkerMessage) => void = () => {}

  const ended = new Promise<void>((resolve) => {
    const end = (how: unknown) => {
      cause ??= how
      alive = false
      resolve()
    }
    child.once('exit', (code, signal) => end(signal ?? code))
    // It has not started, or could not be told something: then it ends.
    child.on('error', (error) => {
      cause = error
      if (child.pid === undefined) end(error)
      else child.kill('SIGKILL')
    })
  })
  const kill = () => {
    // Keeps the station alive until it has ended, also an idle one.
    child.ref()
    child.kill('SIGKILL')
    return ended
  }
  const late = setTimeout(() => void kill(), START_TIMEOUT_MS)
  const told = new Promise<void>((resolve) => (onReady = resolve))
  const ready = Promise.race([told, ended]).then(() => {
    clearTimeout(late)
    return up
  })
  child.on('message', (message: WorkerMessage) => {
    cpuMs = message.cpuMs
    if (message.type !== 'ready') return onWord(message)
    up = true
    onReady()
  })

  /** Whether it keeps the station alive. */
  const hold = (held: boolean) => {
    const act = held ? 'ref' : 'unref'
    child[act]()
    child.channel?.[act]()
  }

  async function run(request: unknown, limitMs: number): Promise<unknown> {
    hold(true)
    const stopClock = startWorkClock(cpuPath, limitMs, () => void kill())
    const answered = new Promise<WorkerMessage>((resolve) => (onWord = resolve))
    child.send(request as never, (error) => (cause ??= error))
    const message = await Promise.race([answered, ended])
    stopClock()
    hold(false)
    if (message === undefined) throw new WorkerExhaustedError('the process has ended', { cause })
    if (message.type === 'refused') throw new ServiceError(message.code, message.details)
    if (message.type === 'failed' && !(message.error instanceof RangeError)) throw message.error
    if (message.type === 'failed')
      throw new WorkerExhaustedError('too deep or too long', { cause: message.error })
    return message.type === 'done' ? message.answer : null
  }

  return { ready, ended, isFit: () => alive && cpuMs < FIT_CPU_MS, run, kill }
}

/** The command that runs the program at an address; a file of source needs the compiler. */
function nodeCommand(program: string): string[] {
  const compiler = program.endsWith('.ts') ? ['--import', import.meta.resolve('tsx')] : []
  return [process.execPath, ...HEAP_ARGUMENTS, ...compiler, fileURLToPath(program)]
}

/**
 * Calls `onSpent` once a process has worked for `limitMs` from now on: by the processor time of its program where it
 * can be read, else by wall time. Returns what stops it.
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

/** The file that tells the processor time of a process's main thread; null where the system has none. */
function findCpuPath(pid: number | undefined): string | null {
  const path = `/proc/${pid}/schedstat`
  return existsSync(path) ? path : null
}

/** Processor time in milliseconds: the first number of `schedstat`, in nanoseconds. */
function readCpuMs(path: string | null): number | null {
  if (path === null) return null
  try {
    return Number(readFileSync(path, 'utf8').split(' ')[0]) / 1e6
  } catch {
    return null
  }
}
