import type { Clock } from '../../core/clock.ts'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { createFairSemaphore, type FairSemaphore } from '../../core/concurrency/fair-semaphore.ts'

const FAILURES_TO_OPEN = 5
const OPEN_MS = 15 * SECOND
const MAX_OPEN_MS = 600 * SECOND
/** Requests that wait for a place at one provider: of all owners, and of one. */
const MAX_WAITING = 256
const MAX_WAITING_PER_OWNER = 16
const BREAKER_QUEUE_TIMEOUT_MS = 3 * SECOND

/**
 * Keeps one provider from being asked while it fails or limits us, and from being asked too much at
 * once: its places are shared out by owner, half of them to one owner at most. After a pause a single
 * request tries again; the others are still refused.
 */
export class CircuitBreaker {
  readonly #provider: string
  readonly #clock: Clock
  readonly #places: FairSemaphore
  #failures = 0
  #closedUntil = 0
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
   * Waits for a place, or refuses. A request that gets one calls exactly one of the three below, then
   * what this answers, which gives the place back.
   */
  async acquire(owner: string, signal: AbortSignal): Promise<() => void> {
    this.#demandOpen()
    const leave = await this.#places.acquire(owner, { signal, timeoutMs: BREAKER_QUEUE_TIMEOUT_MS })
    try {
      // It may have closed while this one waited.
      this.#demandOpen()
    } catch (error) {
      leave()
      throw error
    }
    // half open: the first one through closes the door behind itself
    if (this.#failures >= FAILURES_TO_OPEN) this.#pause(OPEN_MS)
    return leave
  }

  #demandOpen(): void {
    const wait = this.#closedUntil - this.#clock.mono()
    const retryAfter = Math.max(1, Math.ceil(wait / SECOND))
    const details = { provider: this.#provider, retry_after: retryAfter }
    if (wait > 0 && this.#limited) throw new ServiceError('upstream_rate_limited', details)
    if (wait > 0) throw new ServiceError('upstream_error', { ...details, reason: 'breaker_open' })
  }

  recordSuccess(): void {
    this.#failures = 0
    this.#closedUntil = 0
    this.#limited = false
  }

  recordFailure(): void {
    this.#failures += 1
    if (this.#failures >= FAILURES_TO_OPEN) this.#pause(OPEN_MS)
  }

  /** The provider said when to come back. */
  recordRateLimit(retryAfterMs: number): void {
    this.#pause(Math.min(retryAfterMs, MAX_OPEN_MS))
    this.#limited = true
  }

  #pause(ms: number): void {
    this.#closedUntil = this.#clock.mono() + ms
    this.#limited = false
  }
}
