import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { StrictBody, errorResponses, UuidSchema } from '../../schemas/shared-schemas.ts'
import { createFleetTablesExistGuard } from './fleet-routes.ts'

/** Routes by which agents leave a fleet or are removed by its owner (decisions 178 to 180). */

const tags = ['fleets']

interface FleetDeparture {
  readonly fleetId: string
}

const leaveFleet = {
  config: { auth: 'key', scope: 'funds', servesFrozen: true } as const,
  schema: {
    operationId: 'leaveFleet',
    summary: 'Leave the fleet you are in',
    description:
      'Further calls no longer draw on its pool. Credits lent to running calls stay with them, and unused ones return to the pool. An owner that has added itself may leave too, and stays the owner.',
    tags,
    body: StrictBody({
      fleet_id: Type.Optional(
        Type.String({
          format: 'uuid',
          description: 'The fleet to leave; by default the one you are in.',
        }),
      ),
    }),
    response: {
      200: Type.Object({ fleet_id: UuidSchema, agent_id: UuidSchema, left: Type.Literal(true) }),
      ...errorResponses,
    },
  },
}

const removeAgent = {
  config: { auth: 'key', scope: 'funds', servesFrozen: true } as const,
  schema: {
    operationId: 'removeAgentFromFleet',
    summary: 'Remove an agent from a fleet of yours',
    description:
      'Its further calls no longer draw on the pool; running calls are unaffected. The agent need not agree.',
    tags,
    body: StrictBody({
      agent_id: UuidSchema,
      fleet_id: Type.Optional(
        Type.String({
          format: 'uuid',
          description: "The fleet; by default the agent's current one.",
        }),
      ),
    }),
    response: {
      200: Type.Object({ fleet_id: UuidSchema, agent_id: UuidSchema, removed: Type.Literal(true) }),
      ...errorResponses,
    },
  },
}

/** Leaving a fleet, and removal by its owner. */
export const fleetMemberRemovalRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { fleets, once, profiles } = app.services
  app.addHook('preHandler', createFleetTablesExistGuard(fleets))

  app.post('/api/fleet/leave', leaveFleet, async (request, reply) => {
    const { agentId } = request
    const fleetId = lowerOrNull(request.body.fleet_id)
    const presentLeft = ({ fleetId: left }: FleetDeparture) => ({
      status: 200,
      body: { fleet_id: left, agent_id: agentId, left: true },
    })
    return sendIdempotentReply(
      reply,
      once.runCommand(toIdempotentRequest(request), presentLeft, (options) =>
        fleets.leave(agentId, fleetId, options),
      ),
    )
  })

  app.post('/api/fleet/remove-agent', removeAgent, async (request, reply) => {
    const agentId = lower(request.body.agent_id)
    if (!(await profiles.has(agentId))) throw new ServiceError('agent_not_found')
    const fleetId = lowerOrNull(request.body.fleet_id)
    const presentRemoved = ({ fleetId: left }: FleetDeparture) => ({
      status: 200,
      body: { fleet_id: left, agent_id: agentId, removed: true },
    })
    return sendIdempotentReply(
      reply,
      once.runCommand(scopeToRemovedAgent(request, agentId), presentRemoved, (options) =>
        fleets.remove(request.agentId, { agentId, fleetId }, options),
      ),
    )
  })
}

const lower = (id: string) => id.toLowerCase()
const lowerOrNull = (id: string | undefined) => (id === undefined ? null : lower(id))

/** The reply is stored in the commit of the removed agent, so it is scoped to the owner there. */
function scopeToRemovedAgent(request: FastifyRequest, agentId: string) {
  const one = toIdempotentRequest(request)
  return { ...one, owner: agentId, key: one.key === null ? null : `${request.agentId} ${one.key}` }
}
