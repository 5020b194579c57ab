import type { Clock } from '../../core/clock.ts'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'

const FAILURES_TO_OPEN = 5
const OPEN_MS = 15 * SECOND
const LONGEST_PAUSE_MS = 600 * SECOND

/**
 * Keeps one provider from being asked while it fails or limits us, and from being asked too much at
 * once. After a pause a single request tries again; the others are still refused.
 */
export class Breaker {
  readonly #provider: string
  readonly #clock: Clock
  readonly #width: number
  #failures = 0
  #running = 0
  #closedUntil = 0
  #limited = false

  constructor(provider: string, clock: Clock, width: number) {
    this.#provider = provider
    this.#clock = clock
    this.#width = width
  }

  /** Takes a place, or refuses; whoever gets one calls exactly one of the three below, then `leave`. */
  enter(): void {
    const wait = this.#closedUntil - this.#clock.mono()
    const retryAfter = Math.max(1, Math.ceil(wait / SECOND))
    const details = { provider: this.#provider, retry_after: retryAfter }
    if (wait > 0 && this.#limited) throw new ServiceError('upstream_rate_limited', details)
    if (wait > 0) throw new ServiceError('upstream_error', { ...details, reason: 'breaker_open' })
    if (this.#running >= this.#width) throw new ServiceError('upstream_rate_limited', details)
    // half open: the first one through closes the door behind itself
    if (this.#failures >= FAILURES_TO_OPEN) this.#pause(OPEN_MS)
    this.#running += 1
  }

  leave(): void {
    this.#running -= 1
  }

  succeeded(): void {
    this.#failures = 0
    this.#closedUntil = 0
    this.#limited = false
  }

  failed(): void {
    this.#failures += 1
    if (this.#failures >= FAILURES_TO_OPEN) this.#pause(OPEN_MS)
  }

  /** The provider said when to come back. */
  limited(retryAfterMs: number): void {
    this.#pause(Math.min(retryAfterMs, LONGEST_PAUSE_MS))
    this.#limited = true
  }

  #pause(ms: number): void {
    this.#closedUntil = this.#clock.mono() + ms
    this.#limited = false
  }
}
