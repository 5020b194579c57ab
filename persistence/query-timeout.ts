import { runAfterPendingSocketInput } from '../core/concurrency/run-after-pending-socket-input.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'

/** The work's result; throws `unavailable` if the database does not answer in time. */
export const withDatabaseAnswerTimeout = <T>(work: Promise<T>): Promise<T> =>
  rejectLate(
    work,
    LIMITS.commitTimeoutMs,
    () => new ServiceError('unavailable', { retry_after: 2 }),
  )

/**
 * The commit's result, or an interrupted connection after a timeout: a silent connection must not
 * block later commits.
 */
export const withUnansweredCommitTimeout = <T>(work: Promise<T>): Promise<T> =>
  rejectLate(work, LIMITS.commitAbandonMs, () =>
    Object.assign(new Error('no answer'), { code: 'CONNECTION_SILENT' }),
  )

function rejectLate<T>(work: Promise<T>, ms: number, toError: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => runAfterPendingSocketInput(() => reject(toError())), ms)
    work.then(
      (result) => {
        clearTimeout(timer)
        resolve(result)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error as Error)
      },
    )
  })
}

/** Whether the work succeeded in time. */
export async function succeedsWithin(work: PromiseLike<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => runAfterPendingSocketInput(() => resolve(false)), ms)
  })
  const done = Promise.resolve(work).then(
    () => true,
    () => false,
  )
  return Promise.race([done, late]).finally(() => clearTimeout(timer))
}
