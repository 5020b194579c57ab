import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc, toUsdc } from '../../../core/money.ts'
import {
  NOT_BLANK_PATTERN,
  SINGLE_LINE_TEXT_PATTERN,
} from '../../../core/validation/request-schema-regex-patterns.ts'
import { MAX_COMMUNITY_TOOL_PRICE, MIN_COMMUNITY_TOOL_PRICE } from '../../../domain/pricing.ts'
import { COMMUNITY_TOOL_STATES } from '../../../domain/community-tool-record.ts'
import type {
  RequestingToolBuilder,
  ChangedCommunityTool,
  CommunityToolPatch,
  NewCommunityTool,
} from '../../../calls/community/community-tool-service.ts'
import type { CommunityToolView } from '../../../actors/commands/community-tool-commands.ts'
import { COMMUNITY_TOOL_SLUG_PATTERN } from '../../../tools/community/community-tool-registry.ts'
import { parseToolCallRequest, sendCallReply } from '../../http-tool-call-request.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  DateTimeSchema,
  errorResponses,
  Nullable,
  StrictBody,
  toIsoTime,
  RequestUsdcAmountSchema,
  ResponseUsdcAmountSchema,
  UuidSchema,
  WebAddress,
} from '../../schemas/shared-schemas.ts'
import { TOOL_CATEGORIES } from './tool-categories.ts'
import { ToolFieldsWithDryRunBody } from './tool-call-routes.ts'

/** Routes for tools that agents sell: register, change, retire and call them (decision 218). */

const tags = ['builders']
const DEFAULT_CATEGORY = 'web'
const JsonSchemaBody = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({
    type: 'object',
    additionalProperties: true,
    description,
  })
const Name = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: SINGLE_LINE_TEXT_PATTERN,
  description: 'The name of the tool, for people.',
})
const Description = Type.String({
  minLength: 1,
  maxLength: 1_000,
  pattern: NOT_BLANK_PATTERN,
  description: 'What the tool does. Models read at most 500 characters of it.',
})
const EndpointUrl = WebAddress(
  'Where calls are posted: https outside development, a public address. Its origin must show your token at `/.well-known/gas-station.txt`.',
)
const InputSchema = JsonSchemaBody(
  'JSON Schema 2020-12 of the input: an object, not recursive, at most 32 KiB. Any object by default.',
)
const OutputSchema = JsonSchemaBody(
  'JSON Schema 2020-12 of the answer, an object. An answer that does not match it is refunded.',
)
const Example = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
  description:
    'An input that works. The station calls the endpoint with it to see whether it answers again.',
})
const Price = RequestUsdcAmountSchema('What a call costs', {
  minimum: toUsdc(MIN_COMMUNITY_TOOL_PRICE),
  maximum: toUsdc(MAX_COMMUNITY_TOOL_PRICE),
})
const AcceptsPromo = Type.Boolean({
  description:
    'Whether promotional credits pay for it. Your part of them stays promotional. False by default: 402 `cash_required`.',
})
const Category = Type.Enum([...TOOL_CATEGORIES], {
  description: `The category in the catalogue, \`${DEFAULT_CATEGORY}\` by default.`,
})

const ToolView = {
  id: UuidSchema,
  tool_id: UuidSchema,
  slug: Type.String(),
  status: Type.Enum([...COMMUNITY_TOOL_STATES], {
    description:
      '`pending`: its origin does not show your token yet. `probation`: it can be called. `listed`: measured calls were good. `suspended`: they were bad, and a new proof of the endpoint starts over. `retired`: ended.',
  }),
  price_per_call_usdc: ResponseUsdcAmountSchema,
  next_price: Nullable(Type.Object({ price_usdc: ResponseUsdcAmountSchema, from: DateTimeSchema })),
  accepts_promo: Type.Boolean(),
  verification: Type.Enum(['none', 'asked', 'verified', 'refused'], {
    description: 'The mark of the operator.',
  }),
  verification_reason: Nullable(Type.String({ description: 'Why the operator refused the mark.' })),
  builder_share_percent: Type.Integer({ description: 'Your part of the price.' }),
  invoke_url: Type.String({ description: 'Where callers post their input.' }),
  registered_at: DateTimeSchema,
}
const Challenge = Type.Object({
  url: Type.String({ description: 'The file that must show the token, in a line of its own.' }),
  token: Type.String(),
  passed: Type.Boolean(),
  problem: Nullable(Type.String({ description: 'What was there instead.' })),
})
const ToolWithSecret = Type.Object({
  ...ToolView,
  signing_secret: Nullable(
    Type.String({ description: 'Signs every call (Standard Webhooks). Shown only here.' }),
  ),
  challenge: Nullable(Challenge),
})

const secretWrite = { auth: 'key', scope: 'funds', secret: true } as const

const RegisterBody = StrictBody({
  slug: Type.String({
    pattern: COMMUNITY_TOOL_SLUG_PATTERN,
    description: 'The name in addresses: 3 to 48 lower-case letters, digits and dashes.',
  }),
  name: Name,
  description: Description,
  endpoint_url: EndpointUrl,
  input_schema: Type.Optional(InputSchema),
  output_schema: Type.Optional(OutputSchema),
  example: Type.Optional(Example),
  price_per_call_usdc: Price,
  category: Type.Optional(Category),
  accepts_promo: Type.Optional(AcceptsPromo),
})

const registerTool = {
  config: secretWrite,
  schema: {
    operationId: 'registerTool',
    summary: 'Sell a tool of your own to other agents',
    description:
      'You get 60 % of each price. The tool can be called once its origin shows your token; the answer has both, and `PATCH` with the same `endpoint_url` looks again. Calls are signed with the secret of the answer.',
    tags,
    body: RegisterBody,
    response: { 201: ToolWithSecret, ...errorResponses },
  },
}

const ChangeBody = StrictBody(
  {
    name: Type.Optional(Name),
    description: Type.Optional(Description),
    endpoint_url: Type.Optional(EndpointUrl),
    input_schema: Type.Optional(InputSchema),
    output_schema: Type.Optional(OutputSchema),
    example: Type.Optional(Example),
    price_per_call_usdc: Type.Optional(Price),
    category: Type.Optional(Category),
    accepts_promo: Type.Optional(AcceptsPromo),
    rotate_secret: Type.Optional(
      Type.Boolean({ description: 'Make a new signing secret; the old one signs no more.' }),
    ),
  },
  { minProperties: 1 },
)
const slugParams = Type.Object({ slug: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }) })

const changeTool = {
  config: secretWrite,
  schema: {
    operationId: 'changeTool',
    summary: 'Change a tool that you sell',
    description:
      'A lower price applies at once, a higher one after 24 hours. An endpoint has to show your token. Schemas may change so that earlier inputs stay valid and earlier promises hold.',
    tags,
    params: slugParams,
    body: ChangeBody,
    response: { 200: ToolWithSecret, ...errorResponses },
  },
}

const retireTool = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'retireTool',
    summary: 'Retire a tool that you sell, for good',
    description: 'Its name stays taken. Repeating it changes nothing.',
    tags,
    params: slugParams,
    response: { 200: Type.Object(ToolView), ...errorResponses },
  },
}

const invokeTool = {
  config: {
    auth: 'optional',
    scope: 'tools',
    rate: 'refuel',
    bound: 'pays',
    passBadKey: true,
  } as const,
  schema: {
    operationId: 'invokeTool',
    summary: 'Call a tool of another agent, or any tool',
    description:
      'The same call as `/api/refuel` with this tool. Whatever is not a valid answer of the builder is refunded in full, with the reason.',
    tags,
    params: slugParams,
    body: ToolFieldsWithDryRunBody,
    response: {
      200: Type.Object({}, { additionalProperties: true }),
      ...errorResponses,
    },
  },
}

/** Register, change, retire and call community tools. */
export const communityToolRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { builders, calls, clock, config, once, profiles } = app.services
  const present = (changed: CommunityToolView) => toCommunityToolJson(changed, config.publicUrl)

  async function builderOf(request: FastifyRequest): Promise<RequestingToolBuilder> {
    const profile = await profiles.of(request.agentId)
    return {
      builderId: request.agentId,
      builderName: profile?.name ?? request.agentId,
      builderVisitor: request.caller.visitorId,
    }
  }
  const presentWithSecret = ({ view, secret, challenge }: ChangedCommunityTool) => ({
    ...present(view),
    signing_secret: secret,
    challenge: challenge === null ? null : { ...challenge },
  })

  app.post('/api/tools/register', registerTool, async (request, reply) => {
    const write = toIdempotentRequest(request)
    const wanted = toNewTool(request.body)
    const builder = await builderOf(request)
    return sendIdempotentReply(
      reply,
      once.runResumable(write, {
        admit: () => builders.admit(builder, wanted),
        draw: () => ({ toolId: newUuidV7(clock.now()) }),
        work: async ({ toolId }) => ({
          status: 201,
          body: presentWithSecret(await builders.register(builder, wanted, toolId)),
        }),
      }),
    )
  })

  app.patch('/api/tools/:slug', changeTool, async (request, reply) => {
    const write = toIdempotentRequest(request)
    const builder = await builderOf(request)
    return sendIdempotentReply(
      reply,
      once.runThenRecord(write, async () => ({
        status: 200,
        body: presentWithSecret(
          await builders.change(request.params.slug, builder, toPatch(request.body)),
        ),
      })),
    )
  })

  app.delete('/api/tools/:slug', retireTool, async (request, reply) =>
    sendIdempotentReply(
      reply,
      once.runThenRecord(toIdempotentRequest(request), async () => ({
        status: 200,
        body: present(await builders.retire(request.params.slug, request.agentId)),
      })),
    ),
  )

  app.post('/api/tools/:slug/invoke', invokeTool, async (request, reply) => {
    const { slug } = request.params
    const callRequest = parseToolCallRequest(app, request, reply, { ...request.body, tool: slug })
    if (request.body['dry_run'] === true) return calls.quote(callRequest)
    return sendCallReply(reply, await calls.refuel(callRequest))
  })
}

export function toCommunityToolJson(
  { toolId, slug, state, price, context }: CommunityToolView,
  publicUrl: string,
) {
  const { nextPrice } = context
  return {
    id: toolId,
    tool_id: toolId,
    slug,
    status: state,
    price_per_call_usdc: toUsdc(price),
    next_price:
      nextPrice === null
        ? null
        : { price_usdc: toUsdc(nextPrice.price), from: toIsoTime(nextPrice.from) },
    accepts_promo: context.acceptsPromo,
    verification: context.review,
    verification_reason: context.reviewReason,
    builder_share_percent: 60,
    invoke_url: `${publicUrl}/api/tools/${slug}/invoke`,
    registered_at: toIsoTime(context.registeredAt),
  }
}

const ANY_OBJECT = { type: 'object' } as const

const toNewTool = (body: Static<typeof RegisterBody>): NewCommunityTool => ({
  slug: body.slug,
  definition: {
    name: body.name,
    description: body.description,
    category: body.category ?? DEFAULT_CATEGORY,
    inputSchema: body.input_schema ?? ANY_OBJECT,
    outputSchema: body.output_schema ?? ANY_OBJECT,
    example: body.example ?? null,
    forward: { kind: 'http-json', url: body.endpoint_url },
  },
  price: fromUsdc(body.price_per_call_usdc, '/price_per_call_usdc'),
  acceptsPromo: body.accepts_promo ?? false,
})

function toPatch(body: Static<typeof ChangeBody>): CommunityToolPatch {
  const definition = {
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(body.description === undefined ? {} : { description: body.description }),
    ...(body.category === undefined ? {} : { category: body.category }),
    ...(body.input_schema === undefined ? {} : { inputSchema: body.input_schema }),
    ...(body.output_schema === undefined ? {} : { outputSchema: body.output_schema }),
    ...(body.example === undefined ? {} : { example: body.example }),
    ...(body.endpoint_url === undefined
      ? {}
      : { forward: { kind: 'http-json' as const, url: body.endpoint_url } }),
  }
  return {
    ...(Object.keys(definition).length === 0 ? {} : { definition }),
    ...(body.price_per_call_usdc === undefined
      ? {}
      : { price: fromUsdc(body.price_per_call_usdc, '/price_per_call_usdc') }),
    ...(body.accepts_promo === undefined ? {} : { acceptsPromo: body.accepts_promo }),
    ...(body.rotate_secret === undefined ? {} : { rotateSecret: body.rotate_secret }),
  }
}
