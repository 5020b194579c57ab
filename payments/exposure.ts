import type { Clock } from '../core/clock.ts'
import { add, ZERO, type Micros } from '../core/money.ts'

const FRESH_MS = 250

/**
 * What is at stake by all payers, for the global bound: read at most four times a second, plus what
 * this node has let in since. Another node's last quarter of a second is not seen: the bound may be
 * exceeded by that much, never by more than a call's bound for each call in it.
 */
export function exposureMeter(read: () => Promise<Micros>, clock: Pick<Clock, 'mono'>) {
  let sum: Promise<Micros> | null = null
  let readAt = -Infinity
  let since = ZERO

  return {
    async room(price: Micros, most: Micros): Promise<boolean> {
      if (sum === null || clock.mono() - readAt > FRESH_MS) {
        readAt = clock.mono()
        since = ZERO
        sum = read()
        sum.catch(() => (sum = null))
      }
      const fits = add(add(await sum, since), price) <= most
      if (fits) since = add(since, price)
      return fits
    },
  }
}
