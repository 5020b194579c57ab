import { GasStationError } from './station-errors.ts'

/** Caps of what a payment hook may sign: a call, and any 24 hours. */

export interface SignedSpend {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly micros: number
}

export interface SpendingCapOptions {
  /** The most that one call may cost. */
  readonly maxPerCallUsdc: number
  /** The most that the calls of any 24 hours may cost together. */
  readonly maxPerDayUsdc: number
  /** Keeps what was spent beyond this process; one process at a time may use it. */
  readonly store?: {
    load(): Promise<readonly SignedSpend[]>
    save(spent: readonly SignedSpend[]): Promise<void>
  }
}

const DAY_MS = 86_400_000

/** An amount in millionths of a dollar, as a whole number. */
export const toMicroUsdc = (usdc: number): number => Math.round(usdc * 1e6)

/** Counts by a clock that nobody can set, so that a changed clock opens no second day. */
export class SpendingCaps {
  readonly #options: SpendingCapOptions
  /** Times of the monotonic clock. */
  #spent: SignedSpend[] | null = null
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: SpendingCapOptions) {
    for (const name of ['maxPerCallUsdc', 'maxPerDayUsdc'] as const)
      if (!(Number.isFinite(options[name]) && options[name] > 0))
        throw new GasStationError(
          'invalid_cap',
          `${name} is required, as a positive number of USDC`,
        )
    this.#options = options
  }

  /** Counts an amount as spent; returns the cap that forbids it, or null. One at a time. */
  reserve(micros: number): Promise<{ readonly code: string; readonly message: string } | null> {
    const reserved = this.#last.then(() => this.#reserve(micros))
    this.#last = reserved.catch(() => {})
    return reserved
  }

  async #reserve(micros: number) {
    const { maxPerCallUsdc, maxPerDayUsdc, store } = this.#options
    const price = micros / 1e6
    if (micros > toMicroUsdc(maxPerCallUsdc)) {
      const message = `the call costs ${price} USDC, and the hook pays at most ${maxPerCallUsdc} a call`
      return { code: 'cap_per_call', message }
    }
    const now = performance.now()
    const recent = (this.#spent ?? (await this.#load(now))).filter(({ at }) => at > now - DAY_MS)
    const sum = recent.reduce((total, spend) => total + spend.micros, 0)
    this.#spent = recent
    if (sum + micros > toMicroUsdc(maxPerDayUsdc)) {
      const message = `${sum / 1e6} of ${maxPerDayUsdc} USDC are signed in 24 hours, and this call costs ${price}`
      return { code: 'cap_per_day', message }
    }
    const next = [...recent, { at: now, micros }]
    const epoch = Date.now() - now
    // Stored before it is signed: a crash in between costs room, never money.
    await store?.save(next.map((spend) => ({ ...spend, at: Math.round(spend.at + epoch) })))
    this.#spent = next
    return null
  }

  async #load(now: number): Promise<SignedSpend[]> {
    const stored: unknown = (await this.#options.store?.load()) ?? []
    // Spends that cannot be counted would be spent again.
    if (!Array.isArray(stored) || !stored.every(isSpend))
      throw new GasStationError('invalid_store', 'the store returned what no hook has saved in it')
    // A time in the future means that a clock was set: it counts as now.
    return stored.map(({ at, micros }) => ({ micros, at: now - Math.max(0, Date.now() - at) }))
  }
}

const isSpend = (spend: unknown): spend is SignedSpend => {
  const { at, micros } = (spend ?? {}) as Partial<SignedSpend>
  return Number.isFinite(at) && Number.isSafeInteger(micros) && Number(micros) >= 0
}
