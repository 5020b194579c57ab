import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import {
  createBackpackCommand,
  getBackpackCommand,
  listBackpacksCommand,
  renewBackpackCommand,
  revokeBackpackCommand,
  updateBackpackCommand,
  type BackpackView,
} from '../../../actors/commands/backpacks-commands.ts'
import { DAY } from '../../../core/clock.ts'
import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { LIMITS } from '../../../core/limits.ts'
import { toUsdc, type Micros } from '../../../core/money.ts'
import { SINGLE_LINE_TEXT_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import { toBackpackCursor } from '../../../persistence/agents/task-backpack-list-store.ts'
import {
  BackpackExpiryDaysSchema,
  toFuseLimits,
  FuseLimitsSchema,
  resolveBackpackToolList,
  BACKPACK_PAGER_WITHOUT_CHANNELS,
  BackpackToolListSchema,
  BACKPACK_TOOL_LIST_DESCRIPTION,
  RemovedLimitsSchema,
  assertNotSetAndRemoved,
  UNLIMITED_FUSE,
} from '../../schemas/backpack-limit-schemas.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
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
} from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'
import { createBackpackUsageGuide } from './backpack-usage-guide.ts'

/** Routes for Backpacks: what an agent may use and spend (decision 38). */

type Pager = BackpackView['pager']

const PagerBody = Type.Object(
  {
    webhook_url: Type.Optional(
      Nullable(Type.String({ format: 'uri', pattern: '^https?://', maxLength: 2_048 })),
    ),
    owner_email: Type.Optional(Nullable(Type.String({ format: 'email', maxLength: 254 }))),
    owner_telegram: Type.Optional(Nullable(Type.String({ pattern: '^-?[0-9]{1,20}$' }))),
  },
  { additionalProperties: false },
)
const BackpackSchema = Type.Object(
  {
    backpack_id: Type.String(),
    id: Type.String(),
    agent_name: Type.String(),
    state: Type.Enum(['active', 'expired', 'revoked']),
    tools: Nullable(Type.Array(Type.String(), { description: BACKPACK_TOOL_LIST_DESCRIPTION })),
    fuse: Type.Object({
      per_call_usdc: Nullable(ResponseUsdcAmountSchema),
      per_day_usdc: Nullable(ResponseUsdcAmountSchema),
      per_month_usdc: Nullable(ResponseUsdcAmountSchema),
    }),
    pager: Type.Object({
      webhook_url: Nullable(Type.String()),
      owner_email: Nullable(Type.String()),
      owner_telegram: Nullable(Type.String()),
    }),
    spent_today_usdc: ResponseUsdcAmountSchema,
    spent_month_usdc: ResponseUsdcAmountSchema,
    spent_total_usdc: ResponseUsdcAmountSchema,
    calls: Type.Integer(),
    created_at: DateTimeSchema,
    expires_at: DateTimeSchema,
  },
  { $id: 'Backpack' },
)

const NewBackpackBody = StrictBody({
  agent_name: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      pattern: SINGLE_LINE_TEXT_PATTERN,
      description: 'The name of the agent when absent.',
    }),
  ),
  tools: Type.Optional(BackpackToolListSchema),
  expiry_days: Type.Optional(BackpackExpiryDaysSchema),
  fuse: Type.Optional(FuseLimitsSchema),
  pager: Type.Optional(PagerBody),
})
const BackpackChangeBody = Type.Object(
  {
    tools: Type.Optional(BackpackToolListSchema),
    fuse: Type.Optional(FuseLimitsSchema),
    pager: Type.Optional(PagerBody),
    remove: Type.Optional(RemovedLimitsSchema),
  },
  { additionalProperties: false, minProperties: 1 },
)

const config = {
  auth: 'key',
  scope: 'backpacks',
  servesFrozen: true,
  ownerSession: true,
} as const
const route = (operationId: string, summary: string) => ({
  operationId,
  summary,
  tags: ['backpacks'],
  response: { 200: schemaRef(BackpackSchema), ...errorResponses },
})
const params = Type.Object({ id: PathIdSchema })
const touchBackpack = (id: string) => [{ kind: 'backpack', id }] as const

const describeBackpacks = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'describeBackpacks',
    summary: 'How to use a Backpack, as a machine-readable guide',
    tags: ['backpacks'],
    response: { 200: Type.Object({}, { additionalProperties: true }), ...errorResponses },
  },
}

const createBackpack = {
  config,
  schema: {
    ...route('createBackpack', 'Create a Backpack'),
    body: NewBackpackBody,
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
    summary: 'Your Backpacks, including ended ones, newest first',
    tags: ['backpacks'],
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        backpacks: Type.Array(schemaRef(BackpackSchema)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const changeBackpack = {
  config: { ...config, rate: 'manage' } as const,
  schema: {
    ...route('changeBackpack', 'Change tools, fuse or pager'),
    params,
    body: BackpackChangeBody,
  },
}

const revokeBackpack = {
  config: { ...config, rate: 'manage', keeps: 0 } as const,
  schema: { ...route('revokeBackpack', 'End a Backpack for good'), params },
}

const renewBackpack = {
  config: { ...config, rate: 'manage' } as const,
  schema: {
    ...route('renewBackpack', 'Give a Backpack another span of days from now'),
    description:
      'Never shortens the lifetime: a later current end is kept. `expires_at` is the resulting end.',
    params,
    body: StrictBody({ expiry_days: Type.Optional(BackpackExpiryDaysSchema) }),
  },
}

/** Create, read, change, renew and revoke Backpacks. */
export const backpackRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { actors, clock, once, ownLists } = services
  app.addSchema(BackpackSchema)

  app.get('/api/backpack', describeBackpacks, async () =>
    createBackpackUsageGuide(services.config.publicUrl),
  )

  app.post('/api/backpack/create', createBackpack, async (request, reply) => {
    const { agent_name: name = await readAgentName(services, request.agentId) } = request.body
    const input = toNewBackpack(services, { ...request.body, agent_name: name })
    return sendIdempotentReply(
      reply,
      once.runCommand(toIdempotentRequest(request), toBackpackReply, (options) =>
        actors.ask(request.agentId, createBackpackCommand, input, options),
      ),
    )
  })

  app.get('/api/backpacks', listBackpacks, async ({ agentId, apiKey, query }) => {
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.instantAndId,
      (limit, before) => ownLists.backpacksOf(agentId, apiKey?.backpackId ?? null, limit, before),
      toBackpackCursor,
    )
    const backpackIds = rows.map(({ id }) => id)
    const found = await actors.ask(
      agentId,
      listBackpacksCommand,
      { backpackIds },
      { touch: backpackIds.flatMap(touchBackpack) },
    )
    return { backpacks: found.map(presentBackpack), count: found.length, next_cursor }
  })

  const stateOf = async (agentId: string, backpackId: string) =>
    presentBackpack(
      await actors.ask(
        agentId,
        getBackpackCommand,
        { backpackId },
        { touch: touchBackpack(backpackId) },
      ),
    )

  app.get('/api/backpack/:id', readBackpack, async ({ agentId, params }) =>
    stateOf(agentId, params.id),
  )

  app.get('/api/backpack/:id/state', getBackpack, async ({ agentId, params }) =>
    stateOf(agentId, params.id),
  )

  app.patch('/api/backpack/:id', changeBackpack, async (request, reply) => {
    const change = { backpackId: request.params.id, ...toBackpackChange(services, request.body) }
    return runBackpackCommand(request, reply, updateBackpackCommand, change)
  })

  app.post('/api/backpack/:id/revoke', revokeBackpack, async (request, reply) =>
    runBackpackCommand(request, reply, revokeBackpackCommand, { backpackId: request.params.id }),
  )

  app.post('/api/backpack/:id/renew', renewBackpack, async (request, reply) => {
    const { expiry_days: days = LIMITS.backpackExpiryDays } = request.body
    const expiresAt = clock.now() + days * DAY
    return runBackpackCommand(request, reply, renewBackpackCommand, {
      backpackId: request.params.id,
      expiresAt,
    })
  })
}

/** Executes a command on an existing Backpack, once per Idempotency-Key. */
async function runBackpackCommand<I extends { readonly backpackId: string }>(
  request: FastifyRequest,
  reply: FastifyReply,
  command: AggregateCommand<I, BackpackView>,
  input: I,
): Promise<never> {
  const { actors, once } = request.server.services
  return sendIdempotentReply(
    reply,
    once.runCommand(toIdempotentRequest(request), toBackpackReply, (options) =>
      actors.ask(request.agentId, command, input, {
        touch: touchBackpack(input.backpackId),
        ...options,
      }),
    ),
  )
}

async function readAgentName({ profiles }: HttpServices, agentId: string): Promise<string> {
  const own = await profiles.of(agentId)
  if (own === null) throw new ServiceError('agent_not_found', { agent_id: agentId })
  return own.name
}

type NamedBackpackBody = Static<typeof NewBackpackBody> & { readonly agent_name: string }

function toNewBackpack(services: HttpServices, body: NamedBackpackBody) {
  const { agent_name: agentName, expiry_days: days = LIMITS.backpackExpiryDays } = body
  return {
    agentName,
    tools: resolveBackpackToolList(services, body.tools ?? null),
    fuse: { ...UNLIMITED_FUSE, ...toFuseLimits(body.fuse ?? {}) },
    pager: { ...BACKPACK_PAGER_WITHOUT_CHANNELS, ...toPager(services, body.pager ?? {}) },
    expiresAt: services.clock.now() + days * DAY,
  }
}

/** Returns the given fields of a change; absent fields stay unchanged. */
function toBackpackChange(services: HttpServices, body: Static<typeof BackpackChangeBody>) {
  const { tools, fuse, pager, remove } = body
  if (remove !== undefined) assertNotSetAndRemoved(remove, body)
  return {
    ...(tools === undefined ? {} : { tools: resolveBackpackToolList(services, tools) }),
    ...(fuse === undefined ? {} : { fuse: toFuseLimits(fuse) }),
    ...(pager === undefined ? {} : { pager: toPager(services, pager) }),
    ...(remove === undefined ? {} : { remove }),
  }
}

/** Returns the given addresses; null removes one. */
function toPager(
  { config, webhooks }: HttpServices,
  input: Static<typeof PagerBody>,
): Partial<Pager> {
  const { webhook_url: webhookUrl, owner_email: ownerEmail, owner_telegram: ownerTelegram } = input
  if (config.production && typeof webhookUrl === 'string' && !webhookUrl.startsWith('https://')) {
    throw invalidInputError('/pager/webhook_url', 'must be an https address')
  }
  if (typeof webhookUrl === 'string') webhooks.checkSpelling(webhookUrl, '/pager/webhook_url')
  return {
    ...(webhookUrl === undefined ? {} : { webhookUrl }),
    ...(ownerEmail === undefined ? {} : { ownerEmail }),
    ...(ownerTelegram === undefined ? {} : { ownerTelegram }),
  }
}

const toBackpackReply = (backpack: BackpackView) => ({
  status: 200,
  body: presentBackpack(backpack),
})
const toUsdcOrNull = (amount: Micros | null) => (amount === null ? null : toUsdc(amount))

const presentBackpack = (backpack: BackpackView) => ({
  backpack_id: backpack.backpackId,
  id: backpack.backpackId,
  agent_name: backpack.agentName,
  state: backpack.state,
  tools: backpack.tools === null ? null : [...backpack.tools],
  fuse: {
    per_call_usdc: toUsdcOrNull(backpack.fuse.perCall),
    per_day_usdc: toUsdcOrNull(backpack.fuse.perDay),
    per_month_usdc: toUsdcOrNull(backpack.fuse.perMonth),
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
  created_at: toIsoTime(backpack.createdAt),
  expires_at: toIsoTime(backpack.expiresAt),
})
