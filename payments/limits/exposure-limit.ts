import type { Clock } from '../../core/clock.ts'
import { addMicros, sumMicros, type Micros } from '../../core/money.ts'

const READING_MAX_AGE_MS = 250

/** The room one claim has taken. */
export interface ExposureReservation {
  /** To be called when the claim has been committed, or has come to nothing. */
  release(): void
}

interface OpenExposureClaim {
  readonly price: Micros
  ended: boolean
}

/**
 * What is at stake by all payers, for the global bound: a reading, made at most four times a second,
 * and on top of it every claim of this node that the reading may not have seen, because it had not
 * ended when the reading began. A claim that is in both counts twice for a moment, never not at all:
 * one node alone never exceeds the bound. Of other nodes the last reading is known. `n` nodes that
 * begin with `s` at stake have at most `n * (most - s)` more at stake at once, so the bound may be
 * exceeded by what the others let in within a reading and a quarter of a second, and never by more
 * than `(n - 1) * (most - s)`.
 */
export function createExposureLimit(read: () => Promise<Micros>, clock: Pick<Clock, 'mono'>) {
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
    /** Takes room for a call of this price, or answers null when there is none. */
    async room(price: Micros, most: Micros): Promise<ExposureReservation | null> {
      const stake = await fresh()
      const open = sumMicros([...claims].map((claim) => claim.price))
      if (addMicros(addMicros(stake, open), price) > most) return null
      const claim: OpenExposureClaim = { price, ended: false }
      claims.add(claim)
      return { release: () => void (claim.ended = true) }
    },
  }
}
