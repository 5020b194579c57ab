import { setTimeout as wait } from 'node:timers/promises'
import { ServiceError } from '../errors.ts'
import { LIMITS } from '../limits.ts'

/** Serializes requests with the same Idempotency-Key on one node. */

interface RunningRequest<A> {
  readonly hash: string
  readonly answer: Promise<A>
}

/**
 * Runs one request at a time per Idempotency-Key on this node (decision 16). A repetition waits
 * `idempotencyWaitMs` for the first response and shares it. If the first is rejected, the
 * repetition runs. Throws `idempotency_in_flight` (409) after the wait and `idempotency_key_reused`
 * (422) for a different request.
 */
export function createIdempotencySingleflight<A>() {
  const running = new Map<string, RunningRequest<A>>()

  return async function alone(
    owner: string,
    key: string,
    hash: string,
    run: () => Promise<A>,
    repeat: (answer: A) => A,
  ): Promise<A> {
    const name = `${owner} ${key}`
    for (let first = running.get(name); first !== undefined; first = running.get(name)) {
      if (first.hash !== hash) throw new ServiceError('idempotency_key_reused')
      const shared = await awaitFirstResponse(first.answer)
      if (shared !== null) return repeat(shared)
    }
    const answer = run()
    running.set(name, { hash, answer })
    try {
      return await answer
    } finally {
      running.delete(name)
    }
  }
}

/** Returns the first request's response, or null if that request was rejected. */
async function awaitFirstResponse<A>(answer: Promise<A>): Promise<A | null> {
  const timeout = new AbortController()
  const { signal } = timeout
  const late = wait(LIMITS.idempotencyWaitMs, WAIT_TIMED_OUT, { signal }).catch(
    () => WAIT_TIMED_OUT,
  )
  const first = await Promise.race([answer.catch(() => null), late])
  timeout.abort()
  if (first !== WAIT_TIMED_OUT) return first as A | null
  throw new ServiceError('idempotency_in_flight', { retry_after: 1 })
}
const WAIT_TIMED_OUT = Symbol('late')
