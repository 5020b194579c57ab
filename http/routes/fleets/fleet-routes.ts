import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import { ServiceError } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../../core/limits.ts'
import { addMicros, toUsdc } from '../../../core/money.ts'
import {
  EVM_TX_HASH_PATTERN,
  SINGLE_LINE_TEXT_PATTERN,
} from '../../../core/validation/request-schema-regex-patterns.ts'
import {
  getFleetPoolCreditsCommand,
  type FleetTopUpResult,
} from '../../../payments/commands/fleet-commands.ts'
import type { FleetService } from '../../../payments/fleets/fleet-service.ts'
import type { PromoCashAmounts } from '../../../payments/ledger-accounts.ts'
import { toFleetMemberCursor, type FleetRecord } from '../../../persistence/fleets/fleet-store.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { authoriseBodyKey } from '../../plugins/auth.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  StrictBody,
  errorResponses,
  PathIdSchema,
  DateTimeSchema,
  toIsoTime,
  Nullable,
  schemaRef,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for fleets: credit pools shared by agents (decision 31). */

const tags = ['fleets']

const FleetView = Type.Object(
  {
    fleet_id: UuidSchema,
    id: UuidSchema,
    name: Type.String(),
    owner_agent_id: UuidSchema,
    wallet_address: Type.String({
      description: 'USDC sent to this address on Base can be credited by a top-up.',
    }),
    balance_usdc: Type.Number({ description: 'Available to the members, including the bonus.' }),
    bonus_usdc: Type.Number({ description: 'The promotional part, which is used first.' }),
    members: Type.Integer(),
    created_at: DateTimeSchema,
  },
  { $id: 'Fleet' },
)

const createFleet = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'createFleet',
    summary: 'Create a credit pool shared by agents',
    tags,
    body: StrictBody({
      name: Type.String({
        minLength: 1,
        maxLength: 128,
        pattern: SINGLE_LINE_TEXT_PATTERN,
      }),
    }),
    response: { 200: schemaRef(FleetView), ...errorResponses },
  },
}

const addAgent = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'addAgentToFleet',
    summary: 'Add an agent to your fleet',
    tags,
    body: StrictBody({
      fleet_id: UuidSchema,
      agent_id: UuidSchema,
      agent_key: Type.Optional(
        Type.String({
          maxLength: 256,
          description:
            'A key of the agent that joins: its consent. It has to be allowed to make this request itself. Not needed for yourself.',
        }),
      ),
    }),
    response: {
      200: Type.Object({ fleet_id: UuidSchema, agent_id: UuidSchema, joined: Type.Literal(true) }),
      ...errorResponses,
    },
  },
}

const topUpFleet = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'topUpFleet',
    summary: 'Credit a fleet with USDC that was sent on Base',
    description:
      'Credits the USDC that a transaction moved to the wallet of the fleet, or from a wallet of yours to the treasury. The first top-up of at least 1 USDC earns a 25 % bonus of at most 25 USDC, once an owner, while the bonuses of the day last; if they are used up, a top-up of a later day earns it.',
    tags,
    body: StrictBody({
      fleet_id: UuidSchema,
      tx_hash: Type.String({ pattern: EVM_TX_HASH_PATTERN }),
    }),
    response: {
      200: Type.Object({
        fleet_id: UuidSchema,
        tx_hash: Type.String(),
        credited_usdc: ResponseUsdcAmountSchema,
        bonus_usdc: ResponseUsdcAmountSchema,
      }),
      ...errorResponses,
    },
  },
}

const getFleet = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'getFleetBalance',
    summary: 'The balance of a fleet, for its owner and its members',
    tags,
    querystring: Type.Object({ fleet_id: UuidSchema }),
    response: { 200: schemaRef(FleetView), ...errorResponses },
  },
}

const listFleets = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'listFleets',
    summary: 'The fleets you own or belong to',
    tags,
    response: {
      200: Type.Object({
        fleets: Type.Array(schemaRef(FleetView)),
        count: Type.Integer(),
        next_cursor: Type.Null(),
      }),
      ...errorResponses,
    },
  },
}

const listMembers = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'listFleetMembers',
    summary: 'The agents in a fleet, for its owner and its members, in the order they joined',
    tags,
    params: Type.Object({ id: PathIdSchema }),
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        fleet_id: UuidSchema,
        members: Type.Array(
          Type.Object({ agent_id: UuidSchema, id: UuidSchema, joined_at: DateTimeSchema }),
        ),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

/** Returns a check that throws `fleet_unavailable` with instructions when the fleet tables are missing. */
export const createFleetTablesExistGuard = (fleets: FleetService) => async (): Promise<void> => {
  const missing = await fleets.store.missing()
  if (missing.length === 0) return
  const detail = `The database lacks the tables ${missing.join(', ')}: restore them, or run "gas migrate" on it.`
  throw new ServiceError('fleet_unavailable', { detail, missing })
}

/** Create, fund and read fleets, and add members. */
export const fleetRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, fleets, once, profiles } = app.services
  app.addSchema(FleetView)

  app.addHook('preHandler', createFleetTablesExistGuard(fleets))

  const shown = async (fleet: FleetRecord) =>
    presentFleet(fleet, await actors.ask(fleet.fleetId, getFleetPoolCreditsCommand, {}))

  app.post('/api/fleet/create', createFleet, async (request, reply) =>
    sendIdempotentReply(
      reply,
      once.runThenRecord(toIdempotentRequest(request), async () => {
        const fleet = await fleets.create(request.agentId, request.body.name)
        return { status: 200, body: await shown(fleet) }
      }),
    ),
  )

  app.post('/api/fleet/add-agent', addAgent, async (request, reply) => {
    const { fleetId } = await fleets.owned(lower(request.body.fleet_id), request.agentId)
    const agentId = lower(request.body.agent_id)
    if (!(await profiles.has(agentId))) throw new ServiceError('agent_not_found')
    // An agent can be in one fleet at a time, so another one than the owner consents with a key of its own.
    if (agentId !== request.agentId)
      await authoriseBodyKey(request, agentId, ['agent_key', request.body.agent_key])
    const body = { fleet_id: fleetId, agent_id: agentId, joined: true }
    return sendIdempotentReply(
      reply,
      once.runCommand(
        scopeToFleet(request, fleetId),
        () => ({ status: 200, body }),
        (options) => fleets.join(fleetId, agentId, options),
      ),
    )
  })

  app.post('/api/fleet/topup', topUpFleet, async (request, reply) => {
    const fleet = await fleets.owned(lower(request.body.fleet_id), request.agentId)
    const { fleetId } = fleet
    const tx = request.body.tx_hash.toLowerCase() as HexString
    const presentTopUp = ({ credited, bonus }: FleetTopUpResult) => ({
      status: 200,
      body: {
        fleet_id: fleetId,
        tx_hash: tx,
        credited_usdc: toUsdc(credited),
        bonus_usdc: toUsdc(bonus),
      },
    })
    return sendIdempotentReply(
      reply,
      once.runCommand(scopeToFleet(request, fleetId), presentTopUp, async (options) =>
        fleets.topUp(fleetId, await fleets.arrivals(fleet, tx), options),
      ),
    )
  })

  /** Throws `not_found` to callers other than the owner and the members (decision 11). */
  const visible = async (agentId: string, id: string): Promise<FleetRecord> => {
    const fleetId = lower(id)
    const fleet = isUuid(fleetId) ? await fleets.store.find(fleetId) : null
    const mine = fleet?.ownerId === agentId
    if (fleet === null || (!mine && (await fleets.store.membershipOf(agentId)) !== fleetId))
      throw new ServiceError('fleet_not_found', { fleet_id: fleetId })
    return fleet
  }

  app.get('/api/fleet/balance', getFleet, async ({ agentId, query }) =>
    shown(await visible(agentId, query.fleet_id)),
  )

  app.get('/api/fleet/:id/members', listMembers, async ({ agentId, params, query }) => {
    const { fleetId } = await visible(agentId, params.id)
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.instantAndUuid,
      (limit, after) => fleets.store.membersOf(fleetId, limit, after),
      toFleetMemberCursor,
    )
    const members = rows.map((member) => ({
      agent_id: member.agentId,
      id: member.agentId,
      joined_at: toIsoTime(member.joinedAt),
    }))
    return { fleet_id: fleetId, members, count: members.length, next_cursor }
  })

  app.get('/api/fleet/list', listFleets, async ({ agentId }) => {
    const found = await fleets.store.listOf(agentId, LIMITS.pageMax)
    const views = await Promise.all(found.map(shown))
    return { fleets: views, count: views.length, next_cursor: null }
  })
}

const lower = (id: string) => id.toLowerCase()

/** The reply is stored in the fleet's commit and scoped to the fleet; only its owner reaches this. */
const scopeToFleet = (request: FastifyRequest, fleetId: string) => ({
  ...toIdempotentRequest(request),
  owner: fleetId,
})

const presentFleet = (fleet: FleetRecord, { promo, cash }: PromoCashAmounts) => ({
  fleet_id: fleet.fleetId,
  id: fleet.fleetId,
  name: fleet.name,
  owner_agent_id: fleet.ownerId,
  wallet_address: fleet.address,
  balance_usdc: toUsdc(addMicros(promo, cash)),
  bonus_usdc: toUsdc(promo),
  members: fleet.members,
  created_at: toIsoTime(fleet.createdAt),
})
