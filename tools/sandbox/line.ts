import { ServiceError } from '../../core/errors.ts'

/** Whoever waits for a host, first come, first served. */
export interface Line<T> {
  readonly length: () => number
  /** Settles when it is given something; rejects when patience ends, or as the signal says. */
  wait(signal: AbortSignal, patienceMs: number | null): Promise<T>
  /** To whoever has waited longest; null is a refusal. Nothing where nobody waits. */
  give(what: T | null): void
}

export const busy = () => new ServiceError('sandbox_busy', { retry_after: 2 })

export const unavailable = (reason: string) =>
  new ServiceError('sandbox_unavailable', {
    retry_after: 30,
    detail: `The sandbox cannot start on this station: ${reason}. Nothing was run.`,
  })

/** `refusal` makes the error of whoever waits in vain. */
export function createLine<T>(refusal: () => ServiceError = busy): Line<T> {
  const waiting: ((what: T | null) => void)[] = []

  function wait(signal: AbortSignal, patienceMs: number | null): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = (what: T | null, reason: unknown) => {
        clearTimeout(patience)
        signal.removeEventListener('abort', abort)
        if (what !== null) resolve(what)
        else reject(reason instanceof Error ? reason : new Error('aborted', { cause: reason }))
      }
      const leave = (reason: unknown) => {
        waiting.splice(waiting.indexOf(take), 1)
        settle(null, reason)
      }
      const abort = () => leave(signal.reason)
      const take = (what: T | null) => settle(what, refusal())
      const patience =
        patienceMs === null ? undefined : setTimeout(() => leave(refusal()), patienceMs)
      waiting.push(take)
      signal.addEventListener('abort', abort, { once: true })
      if (signal.aborted) abort()
    })
  }

  return { length: () => waiting.length, wait, give: (what) => waiting.shift()?.(what) }
}
