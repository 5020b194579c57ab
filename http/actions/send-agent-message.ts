import { DAY } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import type { AgentMessageStore } from '../../persistence/agents/agent-message-store.ts'
import type {
  IdempotentReply,
  IdempotentRequest,
  IdempotentWrites,
} from '../../persistence/idempotency/idempotent-writes.ts'
import type { AgentProfileStore } from '../../persistence/agents/agent-profile-store.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'

/** Sending a message between agents, shared by REST and WebSocket. */

export interface SendAgentMessageDeps {
  readonly once: IdempotentWrites
  readonly clock: { now(): number }
  readonly profiles: Pick<AgentProfileStore, 'has'>
  readonly messages: Pick<AgentMessageStore, 'send'>
  readonly realtime: { grew(table: 'outbox'): void }
}

export interface OutgoingAgentMessage {
  readonly to: string
  readonly message: string
  readonly subject: string | null
}

/** Stores a message; the commit notifies its recipient. */
export function createSendAgentMessage({
  once,
  clock,
  profiles,
  messages,
  realtime,
}: SendAgentMessageDeps) {
  return async function send(
    idempotentRequest: IdempotentRequest,
    from: string,
    message: OutgoingAgentMessage,
  ): Promise<IdempotentReply> {
    const to = message.to.toLowerCase()
    if (!(await withDatabaseAnswerTimeout(profiles.has(to))))
      throw new ServiceError('agent_not_found', { agent_id: to })
    const { message: body, subject } = message
    const sent = await once.runTransaction(idempotentRequest, async (tx) => {
      const now = clock.now()
      const [id, at] = [newUuidV7(now), new Date(now)]
      const expiresAt = new Date(now + LIMITS.messageDays * DAY)
      await messages.send(tx, { id, from, to, kind: 'message', subject, body, at, expiresAt })
      const shown = { message_id: id, to_agent_id: to }
      const times = { created_at: at.toISOString(), expires_at: expiresAt.toISOString() }
      return { status: 200, body: { ...shown, ...times } }
    })
    realtime.grew('outbox')
    return sent
  }
}
