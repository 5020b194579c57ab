import { existsSync, readlinkSync } from 'node:fs'
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { ServiceError, type ErrorCode } from '../errors.ts'

/** Messages of a worker thread; the first reports its start. */
export type WorkerMessage =
  | { readonly type: 'ready'; readonly cpuPath: string | null }
  | { readonly type: 'done'; readonly answer: unknown }
  /** An expected failure, which has to become an error of its class again. */
  | {
      readonly type: 'refused'
      readonly code: ErrorCode
      readonly details: Record<string, unknown>
    }
  | { readonly type: 'failed'; readonly error: Error }

/** Niceness of this thread only, on Linux: on a busy machine strangers' work waits. */
const NICENESS = 5

/** The program of a thread of `createWorkerPool`: serves one request at a time. */
export function serveWorkerRequests<Request>(serve: (request: Request) => unknown): void {
  const post = (message: WorkerMessage) => parentPort?.postMessage(message)
  if (process.platform === 'linux') setPriority(0, NICENESS)
  parentPort?.on('message', (request: Request) => {
    try {
      post({ type: 'done', answer: serve(request) })
    } catch (error) {
      post(toFailure(error))
    }
  })
  post({ type: 'ready', cpuPath: findCpuPath() })
}

/** The file that tells this thread's processor time; null where the system has none. */
function findCpuPath(): string | null {
  try {
    const path = `/proc/${readlinkSync('/proc/thread-self')}/schedstat`
    return existsSync(path) ? path : null
  } catch {
    return null
  }
}

function toFailure(error: unknown): WorkerMessage {
  if (error instanceof ServiceError)
    return { type: 'refused', code: error.code, details: { ...error.details } }
  return { type: 'failed', error: error instanceof Error ? error : new Error(String(error)) }
}
