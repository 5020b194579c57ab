import type { Clock } from '../core/clock.ts'
import type { Pulse, PulseStore } from '../persistence/pulses.ts'
import { PULSES } from './channels.ts'
import type { Hub } from './hub.ts'

export interface PulsePasserParts {
  readonly clock: Clock
  readonly pulses: Pick<PulseStore, 'ofAll'>
  readonly hub: Pick<Hub<Pulse>, 'has' | 'pass' | 'room'>
  readonly log: (message: string, error: unknown) => void
}

/** Read and handed over at a time. */
const AT_ONCE = 8

/**
 * Passes on the pulses of agents that have said something. As long as those who listen are behind, none
 * is read, and of an agent that pulses again meanwhile only the latest is told.
 */
export function pulsePasser({ clock, pulses, hub, log }: PulsePasserParts) {
  const waiting = new Set<string>()
  let running = false

  async function run(): Promise<void> {
    running = true
    while (waiting.size > 0) {
      await hub.room()
      const next = [...waiting].slice(0, AT_ONCE)
      for (const id of next) waiting.delete(id)
      if (!hub.has(PULSES)) continue
      await pulses
        .ofAll(next, new Date(clock.now()))
        .then((all) => hub.pass(all, 0n))
        .catch((error: unknown) => log('pulses were not passed on', error))
    }
    running = false
  }

  return {
    of(agentIds: readonly string[]): void {
      if (!hub.has(PULSES)) return
      for (const id of agentIds) waiting.add(id)
      if (!running) void run()
    },
  }
}
