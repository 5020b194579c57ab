import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Hex } from '../../chain/payment.ts'
import { ServiceError } from '../../core/errors.ts'
import { isUuid } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import { add, toUsdc } from '../../core/money.ts'
import { EVM_HASH, LABEL } from '../../core/said.ts'
import { fleetPool, type ToppedUpFleet } from '../../payments/commands/fleet.ts'
import type { Fleets } from '../../payments/fleets.ts'
import type { Purse } from '../../payments/ledger.ts'
import { placeOfMember, type Fleet } from '../../persistence/fleets.ts'
import { answer, asked } from '../idempotency.ts'
import { allows } from '../key-powers.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import { Body, failures, Id, Instant, instant, Nullable, ref, Usdc, Uuid } from '../schemas.ts'

const tags = ['fleets']

const FleetView = Type.Object(
  {
    fleet_id: Uuid,
    id: Uuid,
    name: Type.String(),
    owner_agent_id: Uuid,
    wallet_address: Type.String({ description: 'USDC sent here on Base can be topped up from.' }),
    balance_usdc: Type.Number({ description: 'What the members can draw, the bonus included.' }),
    bonus_usdc: Type.Number({ description: 'The promotional part of it, which is lent first.' }),
    members: Type.Integer(),
    created_at: Instant,
  },
  { $id: 'Fleet' },
)

const createFleet = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'createFleet',
    summary: 'Make a pool of credits that agents share',
    tags,
    body: Body({ name: Type.String({ minLength: 1, maxLength: 128, pattern: LABEL }) }),
    response: { 200: ref(FleetView), ...failures },
  },
}

const addAgent = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'addAgentToFleet',
    summary: 'Take an agent into a fleet of yours',
    tags,
    body: Body({
      fleet_id: Uuid,
      agent_id: Uuid,
      agent_key: Type.Optional(
        Type.String({
          maxLength: 256,
          description: 'A key of the agent that joins: its consent. Not needed for yourself.',
        }),
      ),
    }),
    response: {
      200: Type.Object({ fleet_id: Uuid, agent_id: Uuid, joined: Type.Literal(true) }),
      ...failures,
    },
  },
}

const topUpFleet = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'topUpFleet',
    summary: 'Credit a fleet with USDC that was sent on Base',
    description:
      'Counts what a transaction moved to the wallet of the fleet, or from a wallet of yours to the treasury. The first top-up of at least 1 USDC brings 25 % on top.',
    tags,
    body: Body({
      fleet_id: Uuid,
      tx_hash: Type.String({ pattern: EVM_HASH }),
    }),
    response: {
      200: Type.Object({
        fleet_id: Uuid,
        tx_hash: Type.String(),
        credited_usdc: Usdc,
        bonus_usdc: Usdc,
      }),
      ...failures,
    },
  },
}

const getFleet = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'getFleetBalance',
    summary: 'What the pool of a fleet holds, for its owner and its members',
    tags,
    querystring: Type.Object({ fleet_id: Uuid }),
    response: { 200: ref(FleetView), ...failures },
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
        fleets: Type.Array(ref(FleetView)),
        count: Type.Integer(),
        next_cursor: Type.Null(),
      }),
      ...failures,
    },
  },
}

const listMembers = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'listFleetMembers',
    summary: 'The agents in a fleet, for its owner and its members, in the order they joined',
    tags,
    params: Type.Object({ id: Id }),
    querystring: Type.Object(Paging),
    response: {
      200: Type.Object({
        fleet_id: Uuid,
        members: Type.Array(Type.Object({ agent_id: Uuid, id: Uuid, joined_at: Instant })),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

/** Refuses with `fleet_unavailable` where tables of fleets are missing, and says what to do. */
export const assertTables = (fleets: Fleets) => async (): Promise<void> => {
  const missing = await fleets.store.missing()
  if (missing.length === 0) return
  const detail = `The database lacks the tables ${missing.join(', ')}: restore them, or run "gas migrate" on it.`
  throw new ServiceError('fleet_unavailable', { detail, missing })
}

/** Pools of credits that agents share (decision 31). */
export const fleetRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, fleets, once, profiles } = app.services
  app.addSchema(FleetView)

  app.addHook('preHandler', assertTables(fleets))

  const shown = async (fleet: Fleet) =>
    present(fleet, await actors.ask(fleet.fleetId, fleetPool, {}))

  app.post('/api/fleet/create', createFleet, async (request, reply) =>
    answer(
      reply,
      once.after(asked(request), async () => {
        const fleet = await fleets.create(request.agentId, request.body.name)
        return { status: 200, body: await shown(fleet) }
      }),
    ),
  )

  app.post('/api/fleet/add-agent', addAgent, async (request, reply) => {
    const { fleetId } = await fleets.owned(lower(request.body.fleet_id), request.agentId)
    const agentId = lower(request.body.agent_id)
    if (!(await profiles.has(agentId))) throw new ServiceError('agent_not_found')
    await demandConsent(request, agentId, request.body.agent_key)
    const body = { fleet_id: fleetId, agent_id: agentId, joined: true }
    return answer(
      reply,
      once.command(
        ofFleet(request, fleetId),
        () => ({ status: 200, body }),
        (options) => fleets.join(fleetId, agentId, options),
      ),
    )
  })

  app.post('/api/fleet/topup', topUpFleet, async (request, reply) => {
    const fleet = await fleets.owned(lower(request.body.fleet_id), request.agentId)
    const { fleetId } = fleet
    const tx = request.body.tx_hash.toLowerCase() as Hex
    const presentTopUp = ({ credited, bonus }: ToppedUpFleet) => ({
      status: 200,
      body: {
        fleet_id: fleetId,
        tx_hash: tx,
        credited_usdc: toUsdc(credited),
        bonus_usdc: toUsdc(bonus),
      },
    })
    return answer(
      reply,
      once.command(ofFleet(request, fleetId), presentTopUp, async (options) =>
        fleets.topUp(fleetId, await fleets.arrivals(fleet, tx), options),
      ),
    )
  })

  /** For its owner and its members; to anybody else it is not there (decision 11). */
  const visible = async (agentId: string, id: string): Promise<Fleet> => {
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
    const { rows, next_cursor } = await page(
      query,
      CURSOR.instantAndId,
      (limit, after) => fleets.store.membersOf(fleetId, limit, after),
      placeOfMember,
    )
    const members = rows.map((member) => ({
      agent_id: member.agentId,
      id: member.agentId,
      joined_at: instant(member.joinedAt),
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

/** Kept in the commit of the fleet, so under the fleet; only its owner comes that far. */
const ofFleet = (request: FastifyRequest, fleetId: string) => ({
  ...asked(request),
  owner: fleetId,
})

/**
 * An agent can be in one fleet at a time, so nobody is put into one unasked: an agent other than the owner
 * shows a key of its own that may move funds.
 */
async function demandConsent(
  { agentId: ownerId, server }: FastifyRequest,
  agentId: string,
  secret: string | undefined,
): Promise<void> {
  if (agentId === ownerId) return
  const key = secret === undefined ? null : await server.keyRing.verify(secret)
  if (key?.agentId === agentId && allows(key, 'funds')) return
  throw new ServiceError('insufficient_scope', {
    detail: 'The agent has to agree: send a key of it that may move funds as agent_key.',
    scope: 'funds',
  })
}

const present = (fleet: Fleet, { promo, cash }: Purse) => ({
  fleet_id: fleet.fleetId,
  id: fleet.fleetId,
  name: fleet.name,
  owner_agent_id: fleet.ownerId,
  wallet_address: fleet.address,
  balance_usdc: toUsdc(add(promo, cash)),
  bonus_usdc: toUsdc(promo),
  members: fleet.members,
  created_at: instant(fleet.createdAt),
})
