import type { Clock } from '../../core/clock.ts'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { createFairSemaphore, type FairSemaphore } from '../../core/concurrency/fair-semaphore.ts'

/** Circuit breaker and bulkhead of a provider. */

const FAILURES_TO_OPEN = 5
const OPEN_MS = 15 * SECOND
const MAX_OPEN_MS = 600 * SECOND
/** Limits of the queue of one provider: in total, and per owner. */
const MAX_WAITING = 256
const MAX_WAITING_PER_OWNER = 16
const BREAKER_QUEUE_TIMEOUT_MS = 3 * SECOND

/**
 * Stops requests to a provider that fails or rate-limits us, and limits its concurrency; slots are shared by
 * owner, with at most half for one owner. After a pause a single request probes the provider while others are
 * still refused.
 */
export class CircuitBreaker {
  readonly #provider: string
  readonly #clock: Clock
  readonly #places: FairSemaphore
  #failures = 0
  #refusesUntil = 0
  #limited = false

  constructor(provider: string, clock: Clock, width: number) {
    this.#provider = provider
    this.#clock = clock
    this.#places = createFairSemaphore(width, {
      clock,
      maxWaiting: MAX_WAITING,
      maxWaitingPerOwner: MAX_WAITING_PER_OWNER,
      maxHeldPerOwner: Math.max(1, Math.ceil(width / 2)),
      createRejection: () =>
        new ServiceError('upstream_rate_limited', { provider, retry_after: 1 }),
    })
  }

  /**
   * Waits for a slot, or throws. The request must then call exactly one of the three methods below, and the
   * returned function to release the slot.
   */
  async acquire(owner: string, signal: AbortSignal): Promise<() => void> {
    this.#assertClosed()
    const leave = await this.#places.acquire(owner, { signal, timeoutMs: BREAKER_QUEUE_TIMEOUT_MS })
    try {
      // The circuit may have opened while this request waited.
      this.#assertClosed()
    } catch (error) {
      leave()
      throw error
    }
    // Half open: the first request opens the circuit for the others until it is done.
    if (this.#failures >= FAILURES_TO_OPEN) this.#pause(OPEN_MS)
    return leave
  }

  #assertClosed(): void {
    const wait = this.#refusesUntil - this.#clock.mono()
    const retryAfter = Math.max(1, Math.ceil(wait / SECOND))
    const details = { provider: this.#provider, retry_after: retryAfter }
    if (wait > 0 && this.#limited) throw new ServiceError('upstream_rate_limited', details)
    if (wait > 0) throw new ServiceError('upstream_error', { ...details, reason: 'breaker_open' })
  }

  recordSuccess(): void {
    this.#failures = 0
    this.#refusesUntil = 0
    this.#limited = false
  }

  recordFailure(): void {
    this.#failures += 1
    if (this.#failures >= FAILURES_TO_OPEN) this.#pause(OPEN_MS)
  }

  /** Records a rate limit with the provider's retry delay. */
  recordRateLimit(retryAfterMs: number): void {
    this.#pause(Math.min(retryAfterMs, MAX_OPEN_MS))
    this.#limited = true
  }

  #pause(ms: number): void {
    this.#refusesUntil = this.#clock.mono() + ms
    this.#limited = false
  }
}
