import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'

/** The work's result; throws `unavailable` if the database does not answer in time. */
export async function withUnavailableTimeout<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const silent = () => reject(new ServiceError('unavailable', { retry_after: 2 }))
    timer = setTimeout(silent, LIMITS.commitTimeoutMs)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

/**
 * The commit's result, or an interrupted connection after a timeout: a silent connection must not
 * block later commits.
 */
export async function withSilentConnectionTimeout<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const silent = () =>
      reject(Object.assign(new Error('no answer'), { code: 'CONNECTION_SILENT' }))
    timer = setTimeout(silent, LIMITS.commitAbandonMs)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

/** Whether the work succeeded in time. */
export async function succeedsWithin(work: PromiseLike<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms)
  })
  const done = Promise.resolve(work).then(
    () => true,
    () => false,
  )
  return Promise.race([done, late]).finally(() => clearTimeout(timer))
}
