import { setTimeout as wait } from 'node:timers/promises'
import { ServiceError } from '../errors.ts'
import { LIMITS } from '../limits.ts'

interface RunningRequest<A> {
  readonly hash: string
  readonly answer: Promise<A>
}

/**
 * One request at a time for each Idempotency-Key on this node (decision 16). A repetition waits a
 * little for the first one's answer and shares it; if that one is refused it runs itself, if it
 * takes longer it is told 409; another request under the same key is told 422.
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

/** The first request's answer, or null if it was refused and left nothing. */
async function awaitFirstResponse<A>(answer: Promise<A>): Promise<A | null> {
  const patience = new AbortController()
  const { signal } = patience
  const late = wait(LIMITS.idempotencyWaitMs, WAIT_TIMED_OUT, { signal }).catch(
    () => WAIT_TIMED_OUT,
  )
  const first = await Promise.race([answer.catch(() => null), late])
  patience.abort()
  if (first !== WAIT_TIMED_OUT) return first as A | null
  throw new ServiceError('idempotency_in_flight', { retry_after: 1 })
}
const WAIT_TIMED_OUT = Symbol('late')
