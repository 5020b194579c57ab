import type { Clock } from '../../core/clock.ts'
import { addMicros, sumMicros, type Micros } from '../../core/money.ts'

/** Bounds the unpaid exposure over all payers, with what was lost in the last 24 hours (decision 473). */

const READING_MAX_AGE_MS = 250

/** The exposure reserved for one claim. */
export interface UnpaidExposureReservation {
  /** Call it after the claim is committed or has failed. */
  release(): void
}

interface OpenExposureClaim {
  readonly price: Micros
  ended: boolean
}

/**
 * Bounds the exposure over all payers. Uses a reading made at most four times a second, plus every
 * claim of this node that had not ended when the reading began. A claim may count twice for a
 * moment, never zero times: one node alone never exceeds the bound. Other nodes are known by the
 * last reading. `n` nodes that begin with `s` at stake add at most `n * (most - s)` at once, so
 * other nodes can exceed the bound during a reading and a quarter of a second, by at most `(n - 1)
 * * (most - s)`.
 */
export function createUnpaidExposureLimit(read: () => Promise<Micros>, clock: Pick<Clock, 'mono'>) {
  const claims = new Set<OpenExposureClaim>()
  let reading: Promise<Micros> | null = null
  let known: Promise<Micros> | null = null
  let readAt = -Infinity

  function fresh(): Promise<Micros> {
    if (reading !== null) return reading
    if (known !== null && clock.mono() - readAt <= READING_MAX_AGE_MS) return known
    readAt = clock.mono()
    const over = [...claims].filter(({ ended }) => ended)
    known = reading = read()
      .then((stake) => {
        for (const claim of over) claims.delete(claim)
        return stake
      })
      .catch((error: unknown) => {
        known = null
        throw error
      })
      .finally(() => (reading = null))
    return reading
  }

  return {
    /** Reserves exposure for a call of this price; null if there is no room. */
    async room(price: Micros, most: Micros): Promise<UnpaidExposureReservation | null> {
      const stake = await fresh()
      const open = sumMicros([...claims].map((claim) => claim.price))
      if (addMicros(addMicros(stake, open), price) > most) return null
      const claim: OpenExposureClaim = { price, ended: false }
      claims.add(claim)
      return { release: () => void (claim.ended = true) }
    },
  }
}
