import { SECOND } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import type {
  IdempotentReply,
  IdempotentRequest,
  IdempotentWrites,
} from '../../persistence/idempotency/idempotent-writes.ts'
import type { AgentGoalPulseStore } from '../../persistence/realtime/agent-goal-pulse-store.ts'
import { toPulseView } from '../../realtime/realtime-event-views.ts'

/** Publishing a pulse, shared by REST and WebSocket. */

export interface PublishPulseDeps {
  readonly once: IdempotentWrites
  readonly clock: { now(): number }
  readonly pulses: Pick<AgentGoalPulseStore, 'put'>
  readonly realtime: { pulsed(agentId: string): void }
}

/** Fields of a pulse; all are optional. */
export interface PublishPulseBody {
  readonly goal_vector?: string
  readonly confidence?: number
  readonly idle_cycles?: number
}

/** Stores the pulse of an agent and notifies its listeners. */
export function createPublishAgentPulse({ once, clock, pulses, realtime }: PublishPulseDeps) {
  return async function pulse(
    idempotentRequest: IdempotentRequest,
    agentId: string,
    body: PublishPulseBody,
  ): Promise<IdempotentReply> {
    const answered = await once.runTransaction(idempotentRequest, async (tx) => {
      const at = new Date(clock.now())
      const expiresAt = new Date(at.getTime() + LIMITS.pulseSeconds * SECOND)
      const { goal_vector: goalVector = '', confidence = 0, idle_cycles: idleCycles = 0 } = body
      const put = { agentId, goalVector, confidence, idleCycles, at, expiresAt }
      await pulses.put(tx, put)
      return { status: 200, body: { ...toPulseView(put), ttl_seconds: LIMITS.pulseSeconds } }
    })
    realtime.pulsed(agentId)
    return answered
  }
}
