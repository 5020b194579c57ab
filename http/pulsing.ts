import { SECOND } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { Answered, Asked, Once } from '../persistence/once.ts'
import type { PulseStore } from '../persistence/pulses.ts'
import { pulseView } from '../realtime/views.ts'

export interface PulsingParts {
  readonly once: Once
  readonly clock: { now(): number }
  readonly pulses: Pick<PulseStore, 'put'>
  readonly realtime: { pulsed(agentId: string): void }
}

/** What an agent says with a pulse; each field may be left out. */
export interface PulseSaid {
  readonly goal_vector?: string
  readonly confidence?: number
  readonly idle_cycles?: number
}

/** Takes a pulse, through whichever door, and tells everybody who listens. */
export function pulsing({ once, clock, pulses, realtime }: PulsingParts) {
  return async function pulse(asked: Asked, agentId: string, said: PulseSaid): Promise<Answered> {
    const answered = await once.write(asked, async (tx) => {
      const at = new Date(clock.now())
      const expiresAt = new Date(at.getTime() + LIMITS.pulseSeconds * SECOND)
      const { goal_vector: goalVector = '', confidence = 0, idle_cycles: idleCycles = 0 } = said
      const put = { agentId, goalVector, confidence, idleCycles, at, expiresAt }
      await pulses.put(tx, put)
      return { status: 200, body: { ...pulseView(put), ttl_seconds: LIMITS.pulseSeconds } }
    })
    realtime.pulsed(agentId)
    return answered
  }
}
