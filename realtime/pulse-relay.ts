import type { Clock } from '../core/clock.ts'
import type {
  AgentGoalPulse,
  AgentGoalPulseStore,
} from '../persistence/realtime/agent-goal-pulse-store.ts'
import { PULSES_CHANNEL } from './signal-channel-names.ts'
import type { BroadcastHub } from './broadcast-hub.ts'

/** Delivers the pulses of announced agents. */

export interface PulseSubscriberRelayDeps {
  readonly clock: Clock
  readonly pulses: Pick<AgentGoalPulseStore, 'ofAll'>
  readonly hub: Pick<BroadcastHub<AgentGoalPulse>, 'has' | 'pass' | 'room'>
  readonly log: (message: string, error: unknown) => void
}

/** Pulses per read. */
const BATCH_SIZE = 8

/**
 * Delivers pulses of announced agents. While subscribers are behind nothing is read, and only the
 * latest pulse of an agent is delivered.
 */
export function createPulseSubscriberRelay({ clock, pulses, hub, log }: PulseSubscriberRelayDeps) {
  const waiting = new Set<string>()
  let running = false

  async function run(): Promise<void> {
    running = true
    while (waiting.size > 0) {
      await hub.room()
      const next = [...waiting].slice(0, BATCH_SIZE)
      for (const id of next) waiting.delete(id)
      if (!hub.has(PULSES_CHANNEL)) continue
      await pulses
        .ofAll(next, new Date(clock.now()))
        .then((all) => hub.pass(all, 0n))
        .catch((error: unknown) => log('pulses were not passed on', error))
    }
    running = false
  }

  return {
    of(agentIds: readonly string[]): void {
      if (!hub.has(PULSES_CHANNEL)) return
      for (const id of agentIds) waiting.add(id)
      if (!running) void run()
    },
  }
}
