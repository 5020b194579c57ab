import Type from 'typebox'
import { DAY } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'

/** The tool `agent-ping`: sends a short message to another agent. */

const RETENTION_MS = 7 * DAY

export default defineTool({
  slug: 'agent_ping',
  name: 'Agent Ping',
  category: 'comms',
  description: 'Sends a short message to another agent: its inbox, webhooks and open streams.',
  tags: ['messaging', 'agents', 'coordination'],
  useCases: ['Hand over a result to a partner agent', 'Wake an agent that waits for a signal'],
  examples: [
    {
      target_agent_id: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d',
      message: 'The dataset is ready: read hive namespace trading.',
    },
  ],
  access: 'paid',
  keyRequired: true,
  price: fromUsdc(0.005),
  effect: 'internal',
  actsOnOthers: true,
  timeoutMs: 5_000,
  input: Type.Object(
    {
      target_agent_id: Type.String({ format: 'uuid', description: 'The agent to reach.' }),
      message: Type.String({ minLength: 1, maxLength: 1000, pattern: NOT_BLANK_PATTERN }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    delivered: Type.Boolean(),
    message_id: Type.String({ format: 'uuid' }),
    target_agent_id: Type.String({ format: 'uuid' }),
    timestamp: Type.String({ format: 'date-time' }),
  }),
  async preflight({ target_agent_id }, { directory }) {
    if (await directory.has(target_agent_id)) return
    throw new ServiceError('agent_not_found', { agent_id: target_agent_id })
  },
  async run({ target_agent_id, message }, { caller, now, stage }) {
    const at = now().getTime()
    const [id, timestamp] = [newUuidV7(at), new Date(at).toISOString()]
    const to = target_agent_id.toLowerCase()
    stage.row('messages', {
      id,
      to_agent: to,
      from_agent: caller.agentId,
      kind: 'ping',
      subject: null,
      body: message,
      at: timestamp,
      expires_at: new Date(at + RETENTION_MS).toISOString(),
    })
    stage.event({
      type: 'agent_ping',
      to,
      data: { kind: 'ping', message_id: id, from_agent_id: caller.agentId, message, at: timestamp },
    })
    return { delivered: true, message_id: id, target_agent_id: to, timestamp }
  },
})
