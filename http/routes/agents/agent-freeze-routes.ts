import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import {
  freezeAgentCommand,
  unfreezeAgentCommand,
  type AgentFreezeView,
} from '../../../actors/commands/agent-freeze-commands.ts'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  DateTimeSchema,
  errorResponses,
  Nullable,
  toIsoTimeOrNull,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes that freeze an agent and let it go on. */

const config = {
  auth: 'key',
  scope: 'keys',
  rate: 'manage',
  servesFrozen: true,
  ownerSession: true,
} as const
const tags = ['agents']
const response = {
  200: Type.Object({
    agent_id: UuidSchema,
    frozen: Type.Boolean({ description: 'Whether the agent is frozen now.' }),
    frozen_at: Nullable(DateTimeSchema),
  }),
  ...errorResponses,
}

const freezeAgent = {
  config: { ...config, keeps: 0 },
  schema: {
    operationId: 'freezeAgent',
    summary: 'Freeze the agent: it spends and does nothing, on every node, until it is unfrozen',
    description:
      'Every call, transfer and other act of any key of the agent is refused with 403 `agent_frozen`. Calls that run already end as usual. Deposits and other credits still arrive, reads and the management of keys and Backpacks still work. Freezing again changes nothing.',
    tags,
    response,
  },
}

const unfreezeAgent = {
  config,
  schema: {
    operationId: 'unfreezeAgent',
    summary: 'Let a frozen agent go on',
    description:
      'Schedules go on with their next run. An agent that is not frozen is left as it is.',
    tags,
    response,
  },
}

/** Freeze and unfreeze. */
export const agentFreezeRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.post('/api/agent/freeze', freezeAgent, (request, reply) =>
    changeFreeze(request, reply, freezeAgentCommand),
  )
  app.post('/api/agent/unfreeze', unfreezeAgent, (request, reply) =>
    changeFreeze(request, reply, unfreezeAgentCommand),
  )
}

async function changeFreeze(
  request: FastifyRequest,
  reply: FastifyReply,
  command: AggregateCommand<Record<string, never>, AgentFreezeView>,
): Promise<never> {
  const { actors, once } = request.server.services
  const { agentId } = request
  const wanted = toIdempotentRequest(request)
  const present = ({ frozenAt }: AgentFreezeView) => ({
    status: 200,
    body: { agent_id: agentId, frozen: frozenAt !== null, frozen_at: toIsoTimeOrNull(frozenAt) },
  })
  return sendIdempotentReply(
    reply,
    once.runCommand(wanted, present, (options) => actors.ask(agentId, command, {}, options)),
  )
}
