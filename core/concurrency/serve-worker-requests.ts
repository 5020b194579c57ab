import { setPriority } from 'node:os'
import { ServiceError, type ErrorCode } from '../errors.ts'

/** What a worker process says; the first reports its start. `cpuMs` is the processor time it has used. */
export type WorkerMessage = { readonly cpuMs: number } & WorkerWord

type WorkerWord =
  | { readonly type: 'ready' }
  | { readonly type: 'done'; readonly answer: unknown }
  /** An expected failure, which has to become an error of its class again. */
  | {
      readonly type: 'refused'
      readonly code: ErrorCode
      readonly details: Record<string, unknown>
    }
  | { readonly type: 'failed'; readonly error: Error }

/** On a busy machine strangers' work waits. */
const NICENESS = 5

/** The program of a process of `createWorkerPool`: serves one request at a time, until its station has ended. */
export function serveWorkerRequests<Request>(serve: (request: Request) => unknown): void {
  const post = (word: WorkerWord) => {
    const { user, system } = process.cpuUsage()
    process.send?.({ ...word, cpuMs: (user + system) / 1_000 })
  }
  setPriority(0, NICENESS)
  // A terminal sends these to the whole group; the station finishes its calls, and then ends this process.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
  process.on('disconnect', () => process.exit())
  process.on('message', (request: Request) => {
    try {
      post({ type: 'done', answer: serve(request) })
    } catch (error) {
      post(toFailure(error))
    }
  })
  post({ type: 'ready' })
}

function toFailure(error: unknown): WorkerWord {
  if (error instanceof ServiceError)
    return { type: 'refused', code: error.code, details: { ...error.details } }
  return { type: 'failed', error: error instanceof Error ? error : new Error(String(error)) }
}
