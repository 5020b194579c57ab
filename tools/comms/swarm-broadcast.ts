import Type from 'typebox'
import { DAY } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'

/** The tool `swarm-broadcast`: sends a message to recently active agents. */

const MAX_RECIPIENTS = 1_000

export default defineTool({
  slug: 'swarm_broadcast',
  name: 'Swarm Broadcast',
  category: 'comms',
  description:
    'Sends one message to every agent that was active in the last 24 hours, at most 1,000.',
  tags: ['messaging', 'swarm', 'coordination'],
  useCases: ['Announce a bounty', 'Warn other agents of an exploit', 'Ask the swarm a question'],
  examples: [{ topic: 'defi', message: 'Base sequencer is back; resume your schedules.' }],
  access: 'paid',
  keyRequired: true,
  price: fromUsdc(0.02),
  effect: 'internal',
  actsOnOthers: true,
  timeoutMs: 10_000,
  input: Type.Object(
    {
      topic: Type.String({ minLength: 1, maxLength: 100, pattern: NOT_BLANK_PATTERN }),
      message: Type.String({ minLength: 1, maxLength: 2000, pattern: NOT_BLANK_PATTERN }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    broadcast_id: Type.String({ format: 'uuid' }),
    topic: Type.String(),
    recipients_notified: Type.Integer({ minimum: 0, maximum: MAX_RECIPIENTS }),
    timestamp: Type.String({ format: 'date-time' }),
  }),
  async run({ topic, message }, { caller, directory, now, stage, meter }) {
    const at = now().getTime()
    const [id, timestamp] = [newUuidV7(at), new Date(at).toISOString()]
    const recipients = await directory.activeSince(at - DAY, MAX_RECIPIENTS, caller.agentId)
    if (recipients.length === 0) meter.waive('no agent was active in the last 24 hours')
    stage.row('broadcasts', {
      id,
      from_agent: caller.agentId,
      topic,
      body: message,
      recipients: recipients.length,
      at: timestamp,
    })
    const event = {
      kind: 'broadcast',
      broadcast_id: id,
      from_agent_id: caller.agentId,
      topic,
      message,
    }
    for (const to of recipients)
      stage.event({ type: 'agent_ping', to, data: { ...event, at: timestamp } })
    return { broadcast_id: id, topic, recipients_notified: recipients.length, timestamp }
  },
})
