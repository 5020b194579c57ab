import { HOUR, type Clock } from '../core/clock.ts'

/** Ids that this node skips for an hour. */

export interface CooldownSet {
  add(id: string): void
  ids(): string[]
}

/** A record that cannot be written would be retried immediately and forever. */
const COOLDOWN_MS = HOUR

/** Creates a set whose ids expire after `COOLDOWN_MS`. */
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
