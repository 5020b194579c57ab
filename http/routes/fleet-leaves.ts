import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { answer, asked } from '../idempotency.ts'
import { Body, failures, Uuid } from '../schemas.ts'
import { assertTables } from './fleets.ts'

const tags = ['fleets']

interface Left {
  readonly fleetId: string
}

const leaveFleet = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'leaveFleet',
    summary: 'Leave the fleet you are in',
    description:
      'Your calls draw on its pool no more. What it has lent for calls under way stays with them, and what they do not use goes back to it. An owner that has added itself may leave too, and stays the owner.',
    tags,
    body: Body({
      fleet_id: Type.Optional(
        Type.String({
          format: 'uuid',
          description: 'The fleet you mean; the one you are in if absent.',
        }),
      ),
    }),
    response: {
      200: Type.Object({ fleet_id: Uuid, agent_id: Uuid, left: Type.Literal(true) }),
      ...failures,
    },
  },
}

const removeAgent = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'removeAgentFromFleet',
    summary: 'Remove an agent from a fleet of yours',
    description:
      'Its calls draw on the pool no more; those under way end as they began. The agent need not agree.',
    tags,
    body: Body({
      agent_id: Uuid,
      fleet_id: Type.Optional(
        Type.String({
          format: 'uuid',
          description: 'The fleet you mean; the one the agent is in if absent.',
        }),
      ),
    }),
    response: {
      200: Type.Object({ fleet_id: Uuid, agent_id: Uuid, removed: Type.Literal(true) }),
      ...failures,
    },
  },
}

/** How agents leave a fleet, by themselves or removed by its owner: decisions 178 to 180. */
export const fleetLeaveRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { fleets, once, profiles } = app.services
  app.addHook('preHandler', assertTables(fleets))

  app.post('/api/fleet/leave', leaveFleet, async (request, reply) => {
    const { agentId } = request
    const fleetId = lowerOrNull(request.body.fleet_id)
    const presentLeft = ({ fleetId: left }: Left) => ({
      status: 200,
      body: { fleet_id: left, agent_id: agentId, left: true },
    })
    return answer(
      reply,
      once.command(asked(request), presentLeft, (options) =>
        fleets.leave(agentId, fleetId, options),
      ),
    )
  })

  app.post('/api/fleet/remove-agent', removeAgent, async (request, reply) => {
    const agentId = lower(request.body.agent_id)
    if (!(await profiles.has(agentId))) throw new ServiceError('agent_not_found')
    const fleetId = lowerOrNull(request.body.fleet_id)
    const presentRemoved = ({ fleetId: left }: Left) => ({
      status: 200,
      body: { fleet_id: left, agent_id: agentId, removed: true },
    })
    return answer(
      reply,
      once.command(ofRemoved(request, agentId), presentRemoved, (options) =>
        fleets.remove(request.agentId, { agentId, fleetId }, options),
      ),
    )
  })
}

const lower = (id: string) => id.toLowerCase()
const lowerOrNull = (id: string | undefined) => (id === undefined ? null : lower(id))

/** Kept in the commit of the agent that is removed: so under the owner's name there. */
function ofRemoved(request: FastifyRequest, agentId: string) {
  const one = asked(request)
  return { ...one, owner: agentId, key: one.key === null ? null : `${request.agentId} ${one.key}` }
}
