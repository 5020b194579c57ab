import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import type { Command } from '../../actors/command.ts'
import {
  backpackCreate,
  backpackGet,
  backpackList,
  backpackRenew,
  backpackRevoke,
  backpackSet,
  type BackpackView,
} from '../../actors/commands/backpacks.ts'
import { DAY } from '../../core/clock.ts'
import { invalid, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc, type Micros } from '../../core/money.ts'
import { LABEL } from '../../core/said.ts'
import { placeOfBackpack } from '../../persistence/own-lists.ts'
import {
  ExpiryDays,
  fuseOf,
  FuseInput,
  knownTools,
  NOBODY,
  Tools,
  TOOLS_DESCRIPTION,
  UNLIMITED,
} from '../backpack-terms.ts'
import { answer, asked } from '../idempotency.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import { Body, failures, Id, Instant, instant, Nullable, ref, Usdc } from '../schemas.ts'
import type { Services } from '../services.ts'
import { backpackManual } from './backpack-manual.ts'

type Pager = BackpackView['pager']

const PagerInput = Type.Object(
  {
    webhook_url: Type.Optional(
      Nullable(Type.String({ format: 'uri', pattern: '^https?://', maxLength: 2_048 })),
    ),
    owner_email: Type.Optional(Nullable(Type.String({ format: 'email', maxLength: 254 }))),
    owner_telegram: Type.Optional(Nullable(Type.String({ pattern: '^-?[0-9]{1,20}$' }))),
  },
  { additionalProperties: false },
)
const Backpack = Type.Object(
  {
    backpack_id: Type.String(),
    id: Type.String(),
    agent_name: Type.String(),
    state: Type.Enum(['active', 'expired', 'revoked']),
    tools: Nullable(Type.Array(Type.String(), { description: TOOLS_DESCRIPTION })),
    fuse: Type.Object({
      per_call_usdc: Nullable(Usdc),
      per_day_usdc: Nullable(Usdc),
      per_month_usdc: Nullable(Usdc),
    }),
    pager: Type.Object({
      webhook_url: Nullable(Type.String()),
      owner_email: Nullable(Type.String()),
      owner_telegram: Nullable(Type.String()),
    }),
    spent_today_usdc: Usdc,
    spent_month_usdc: Usdc,
    spent_total_usdc: Usdc,
    calls: Type.Integer(),
    created_at: Instant,
    expires_at: Instant,
  },
  { $id: 'Backpack' },
)

const NewBackpack = Body({
  agent_name: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      pattern: LABEL,
      description: 'The name of the agent when absent.',
    }),
  ),
  tools: Type.Optional(Tools),
  expiry_days: Type.Optional(ExpiryDays),
  fuse: Type.Optional(FuseInput),
  pager: Type.Optional(PagerInput),
})
const Change = Type.Object(
  {
    tools: Type.Optional(Tools),
    fuse: Type.Optional(FuseInput),
    pager: Type.Optional(PagerInput),
  },
  { additionalProperties: false, minProperties: 1 },
)

const config = { auth: 'key', scope: 'backpacks' } as const
const route = (operationId: string, summary: string) => ({
  operationId,
  summary,
  tags: ['backpacks'],
  response: { 200: ref(Backpack), ...failures },
})
const params = Type.Object({ id: Id })
const touch = (id: string) => [{ kind: 'backpack', id }] as const

const describeBackpacks = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'describeBackpacks',
    summary: 'What a Backpack is and how to use it, for machines',
    tags: ['backpacks'],
    response: { 200: Type.Object({}, { additionalProperties: true }), ...failures },
  },
}

const createBackpack = {
  config,
  schema: {
    ...route('createBackpack', 'Create a Backpack'),
    body: NewBackpack,
  },
}

const getBackpack = {
  config: { ...config, bound: 'reads', rate: 'manage' } as const,
  schema: { ...route('getBackpack', 'A Backpack and what it has spent'), params },
}

const readBackpack = {
  config: { ...config, bound: 'reads' } as const,
  schema: { ...route('readBackpack', 'The same as its `/state`'), params },
}

const listBackpacks = {
  config: { ...config, bound: 'reads' } as const,
  schema: {
    operationId: 'listBackpacks',
    summary: 'Your Backpacks, ended ones too, newest first',
    tags: ['backpacks'],
    querystring: Type.Object(Paging),
    response: {
      200: Type.Object({
        backpacks: Type.Array(ref(Backpack)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

const changeBackpack = {
  config: { ...config, rate: 'manage' } as const,
  schema: {
    ...route('changeBackpack', 'Change tools, fuse or pager'),
    params,
    body: Change,
  },
}

const revokeBackpack = {
  config: { ...config, rate: 'manage' } as const,
  schema: { ...route('revokeBackpack', 'End a Backpack for good'), params },
}

const renewBackpack = {
  config: { ...config, rate: 'manage' } as const,
  schema: {
    ...route('renewBackpack', 'Give a Backpack another span of days from now'),
    description:
      'It never shortens: where the present end is later, that one holds. The answer says which end holds in `expires_at`.',
    params,
    body: Body({ expiry_days: Type.Optional(ExpiryDays) }),
  },
}

/** A Backpack: what an agent may use and spend, and whom it pages (decision 38). */
export const backpackRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { actors, clock, once, ownLists } = services
  app.addSchema(Backpack)

  app.get('/api/backpack', describeBackpacks, async () => backpackManual(services.config.publicUrl))

  app.post('/api/backpack/create', createBackpack, async (request, reply) => {
    const { agent_name: name = await ownName(services, request.agentId) } = request.body
    const input = newBackpack(services, { ...request.body, agent_name: name })
    return answer(
      reply,
      once.command(asked(request), ok, (options) =>
        actors.ask(request.agentId, backpackCreate, input, options),
      ),
    )
  })

  app.get('/api/backpacks', listBackpacks, async ({ agentId, apiKey, query }) => {
    const { rows, next_cursor } = await page(
      query,
      CURSOR.instantAndId,
      (limit, before) => ownLists.backpacksOf(agentId, apiKey?.backpackId ?? null, limit, before),
      placeOfBackpack,
    )
    const backpackIds = rows.map(({ id }) => id)
    const found = await actors.ask(
      agentId,
      backpackList,
      { backpackIds },
      { touch: backpackIds.flatMap(touch) },
    )
    return { backpacks: found.map(present), count: found.length, next_cursor }
  })

  const stateOf = async (agentId: string, backpackId: string) =>
    present(await actors.ask(agentId, backpackGet, { backpackId }, { touch: touch(backpackId) }))

  app.get('/api/backpack/:id', readBackpack, async ({ agentId, params }) =>
    stateOf(agentId, params.id),
  )

  app.get('/api/backpack/:id/state', getBackpack, async ({ agentId, params }) =>
    stateOf(agentId, params.id),
  )

  app.patch('/api/backpack/:id', changeBackpack, async (request, reply) => {
    const change = { backpackId: request.params.id, ...changeOf(services, request.body) }
    return run(request, reply, backpackSet, change)
  })

  app.post('/api/backpack/:id/revoke', revokeBackpack, async (request, reply) =>
    run(request, reply, backpackRevoke, { backpackId: request.params.id }),
  )

  app.post('/api/backpack/:id/renew', renewBackpack, async (request, reply) => {
    const { expiry_days: days = LIMITS.backpackExpiryDays } = request.body
    const expiresAt = clock.now() + days * DAY
    return run(request, reply, backpackRenew, { backpackId: request.params.id, expiresAt })
  })
}

/** Runs a command on a Backpack that exists, once for each Idempotency-Key. */
async function run<I extends { readonly backpackId: string }>(
  request: FastifyRequest,
  reply: FastifyReply,
  command: Command<I, BackpackView>,
  input: I,
): Promise<never> {
  const { actors, once } = request.server.services
  return answer(
    reply,
    once.command(asked(request), ok, (options) =>
      actors.ask(request.agentId, command, input, { touch: touch(input.backpackId), ...options }),
    ),
  )
}

async function ownName({ profiles }: Services, agentId: string): Promise<string> {
  const own = await profiles.of(agentId)
  if (own === null) throw new ServiceError('agent_not_found', { agent_id: agentId })
  return own.name
}

type Named = Static<typeof NewBackpack> & { readonly agent_name: string }

function newBackpack(services: Services, body: Named) {
  const { agent_name: agentName, expiry_days: days = LIMITS.backpackExpiryDays } = body
  return {
    agentName,
    tools: knownTools(services, body.tools ?? null),
    fuse: { ...UNLIMITED, ...fuseOf(body.fuse ?? {}) },
    pager: { ...NOBODY, ...pagerOf(services, body.pager ?? {}) },
    expiresAt: services.clock.now() + days * DAY,
  }
}

/** What was given of a change; what is absent stays as it is. */
const changeOf = (services: Services, { tools, fuse, pager }: Static<typeof Change>) => ({
  ...(tools === undefined ? {} : { tools: knownTools(services, tools) }),
  ...(fuse === undefined ? {} : { fuse: fuseOf(fuse) }),
  ...(pager === undefined ? {} : { pager: pagerOf(services, pager) }),
})

/** The addresses that were given; null removes one. */
function pagerOf({ config, webhooks }: Services, input: Static<typeof PagerInput>): Partial<Pager> {
  const { webhook_url: webhookUrl, owner_email: ownerEmail, owner_telegram: ownerTelegram } = input
  if (config.production && typeof webhookUrl === 'string' && !webhookUrl.startsWith('https://')) {
    throw invalid('/pager/webhook_url', 'must be an https address')
  }
  if (typeof webhookUrl === 'string') webhooks.checkSpelling(webhookUrl, '/pager/webhook_url')
  return {
    ...(webhookUrl === undefined ? {} : { webhookUrl }),
    ...(ownerEmail === undefined ? {} : { ownerEmail }),
    ...(ownerTelegram === undefined ? {} : { ownerTelegram }),
  }
}

const ok = (backpack: BackpackView) => ({ status: 200, body: present(backpack) })
const maybeUsdc = (amount: Micros | null) => (amount === null ? null : toUsdc(amount))

const present = (backpack: BackpackView) => ({
  backpack_id: backpack.backpackId,
  id: backpack.backpackId,
  agent_name: backpack.agentName,
  state: backpack.state,
  tools: backpack.tools === null ? null : [...backpack.tools],
  fuse: {
    per_call_usdc: maybeUsdc(backpack.fuse.perCall),
    per_day_usdc: maybeUsdc(backpack.fuse.perDay),
    per_month_usdc: maybeUsdc(backpack.fuse.perMonth),
  },
  pager: {
    webhook_url: backpack.pager.webhookUrl,
    owner_email: backpack.pager.ownerEmail,
    owner_telegram: backpack.pager.ownerTelegram,
  },
  spent_today_usdc: toUsdc(backpack.spentDay),
  spent_month_usdc: toUsdc(backpack.spentMonth),
  spent_total_usdc: toUsdc(backpack.spentTotal),
  calls: backpack.calls,
  created_at: instant(backpack.createdAt),
  expires_at: instant(backpack.expiresAt),
})
