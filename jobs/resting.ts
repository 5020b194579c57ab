import { HOUR, type Clock } from '../core/clock.ts'

export interface Resting {
  add(id: string): void
  ids(): string[]
}

/** What could not be kept would come again as often as it is tried: this node leaves it alone for so long. */
const REST_MS = HOUR

/** What this node leaves alone for a while. */
export function resting(clock: Pick<Clock, 'now'>): Resting {
  const until = new Map<string, number>()
  return {
    add: (id) => void until.set(id, clock.now() + REST_MS),
    ids() {
      for (const [id, at] of until) if (at <= clock.now()) until.delete(id)
      return [...until.keys()]
    },
  }
}
