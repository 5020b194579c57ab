import { HOUR, type Clock } from '../core/clock.ts'

export interface CooldownSet {
  add(id: string): void
  ids(): string[]
}

/** What could not be kept would come again as often as it is tried: this node leaves it alone for so long. */
const COOLDOWN_MS = HOUR

/** What this node leaves alone for a while. */
export function createCooldownSet(clock: Pick<Clock, 'now'>): CooldownSet {
  const until = new Map<string, number>()
  return {
    add: (id) => void until.set(id, clock.now() + COOLDOWN_MS),
    ids() {
      for (const [id, at] of until) if (at <= clock.now()) until.delete(id)
      return [...until.keys()]
    },
  }
}
