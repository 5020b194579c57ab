import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { LIMITS } from '../../../core/limits.ts'
import { toExactJson } from '../../../core/json/exact.ts'
import {
  parsePipelineRequest,
  parseToolCallRequest,
  sendCallReply,
  type ToolCallBody,
  type ParseToolCallRequestDeps,
} from '../../http-tool-call-request.ts'
import { streamCallOverSse } from '../../sse/tool-call-sse-stream.ts'
import {
  StrictBody,
  errorResponses,
  Nullable,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'
import { TaskPassSchemaFields } from '../../schemas/task-pass-schema.ts'

/** Routes for tool calls and batches (decisions 18 and 19). */

const toolCallFields = {
  tool: Type.String({ minLength: 1, maxLength: 64, description: 'The slug of a tool.' }),
  query: Type.Optional(Type.String({ description: 'For tools that take one.' })),
  params: Type.Optional(
    Type.Object(
      {},
      {
        additionalProperties: true,
        description: 'More tool fields; a top-level field takes precedence over one here.',
      },
    ),
  ),
}
const dryRun = {
  dry_run: Type.Optional(Type.Boolean({ description: 'Return a quote without running the tool.' })),
}
/** Body of a call whose tool is in the address. */
export const ToolFieldsWithDryRunBody = Type.Object(dryRun, { additionalProperties: true })
const ToolCallSchema = Type.Object(
  { ...toolCallFields, ...dryRun },
  { additionalProperties: true, description: "The tool's fields are beside `tool`." },
)
const ToolCallResponse = Type.Unsafe<Record<string, unknown>>(
  Type.Object(
    {
      echo_recycled: Type.Optional(
        Type.Boolean({ description: 'This paid call was counted in public trending.' }),
      ),
      ghost_protocol: Type.Optional(
        Type.Unknown({
          description:
            '`{active, mode, note}`: whether `X-Ghost-Mode` made the call private. Private calls are excluded from public statistics.',
        }),
      ),
      hive: Type.Optional(
        Type.Unknown({
          description: '`{entries}`: public entries on the same subject; absent without a match.',
        }),
      ),
      _meta: Type.Optional(
        Type.Unknown({
          description:
            '`{call_id, cost_usdc, balance_usdc, rail, provider, mode, ms, receipt}`; `cached: true` where an earlier answer of the provider was given again, `waived` where a call that would cost something cost nothing, `settlement_url` where a payment on a chain paid.',
        }),
      ),
    },
    { additionalProperties: true, description: "The tool's output fields, and these." },
  ),
)

const CallHeaders = Type.Object(
  {
    'x-task-id': Type.Optional(Type.String({ description: 'Charge the call to this task.' })),
    'x-ghost-mode': Type.Optional(
      Type.String({ description: 'stealth, observe, or shadow (the same as stealth).' }),
    ),
    'x-backpack-id': Type.Optional(
      Type.String({ description: 'Apply the limits of this Backpack.' }),
    ),
    'idempotency-key': Type.Optional(
      Type.String({ description: 'Repeat safely: 1 to 255 visible ASCII characters.' }),
    ),
  },
  { additionalProperties: true },
)

const QuoteResponse = Type.Object({
  tool: Type.String(),
  price_usdc: ResponseUsdcAmountSchema,
  rail: Nullable(
    Type.String({
      description:
        '`free`, `pass`, `credits`, or `payment` without a key; null where the station takes no payments.',
    }),
  ),
  pass: Nullable(
    Type.Object(TaskPassSchemaFields, {
      description: 'The task pass that would pay, as it is before the call.',
    }),
  ),
  free_calls_left: Nullable(Type.Integer()),
  offers: Type.Array(
    Type.Object({
      protocol: Type.Enum(['x402', 'mpp']),
      network: Type.String({ description: 'The network in CAIP-2 form.' }),
      asset: Type.String(),
      pay_to: Type.String(),
      amount: Type.String({ description: 'In atomic units of the asset.' }),
    }),
    {
      description:
        'How the price can be paid on a chain: pay no 402 that differs from this. Empty for a free call.',
    },
  ),
  would_refuse: Nullable(
    Type.Unknown({ description: 'The problem that the call would return; null for none.' }),
  ),
})

const config = {
  auth: 'optional',
  scope: 'tools',
  rate: 'refuel',
  bound: 'pays',
  passBadKey: true,
} as const
const bodyLimit = LIMITS.largeBodyBytes
const callRouteSchema = (operationId: string, summary: string) => ({
  operationId,
  summary,
  tags: ['tools'],
  headers: CallHeaders,
  response: { 200: ToolCallResponse, ...errorResponses },
})

const refuel = {
  config,
  bodyLimit,
  schema: { ...callRouteSchema('refuel', 'Call a tool'), body: ToolCallSchema },
}

const callTool = {
  config,
  bodyLimit,
  schema: {
    ...callRouteSchema('callTool', 'Call a tool at its own address and pay for it in one request'),
    params: Type.Object({ slug: Type.String({ minLength: 1, maxLength: 64 }) }),
    body: ToolFieldsWithDryRunBody,
  },
}

const quote = {
  config,
  bodyLimit,
  schema: {
    ...callRouteSchema('quote', 'What a call would cost, and whether it would be refused'),
    body: ToolCallSchema,
    response: { 200: QuoteResponse, ...errorResponses },
  },
}

const refuelStream = {
  config,
  bodyLimit,
  schema: {
    ...callRouteSchema('refuelStream', 'Call a tool and receive its output as server-sent events'),
    body: ToolCallSchema,
    response: {
      200: {
        description:
          'start, progress, partial, text, one result or error, done. Output before the result (`partial` and `text`) is sent once the call is charged. With `tool: "pipeline"` and `calls`, as `/api/pipeline` takes them, each call is a partial when it is answered; a batch that a payment buys is delivered whole or not at all, so its stream opens when it is bought and has the result alone. What became of a payment is in `PAYMENT-RESPONSE`, `X-PAYMENT-RESPONSE` or `Payment-Receipt` where it is known when the stream opens: it has settled, or its answer is repeated. Else it is in the `_meta` of the result, as `payment_response` or `x_payment_response`, with the value that the header would have.',
        content: { 'text/event-stream': { schema: Type.String() } },
      },
      ...errorResponses,
    },
  },
}

const pipeline = {
  config,
  bodyLimit,
  schema: {
    ...callRouteSchema('pipeline', 'Call up to ten tools in parallel'),
    body: StrictBody({
      calls: Type.Array(Type.Object(toolCallFields, { additionalProperties: true }), {
        minItems: 1,
        maxItems: LIMITS.pipelineCalls,
      }),
      dry_run: Type.Optional(Type.Unknown({ description: 'Refused: use `/api/quote`.' })),
    }),
  },
}

/** Single calls, batches and quotes. */
export const toolCallRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls } = app.services

  app.post('/api/refuel', refuel, async (request, reply) =>
    callOrQuote(app, request, reply, request.body),
  )

  app.post('/api/t/:slug', callTool, async (request, reply) =>
    callOrQuote(app, request, reply, { ...request.body, tool: request.params.slug }),
  )

  app.post('/api/quote', quote, async (request, reply) =>
    calls.quote(parseToolCallRequest(app, request, reply, request.body)),
  )

  app.post('/api/refuel/stream', refuelStream, async (request, reply) =>
    streamCallOverSse(app, request, reply, request.body),
  )

  app.post('/api/pipeline', pipeline, async (request, reply) =>
    sendCallReply(
      reply,
      await calls.pipeline(await parsePipelineRequest(app, request, reply, request.body.calls)),
    ),
  )
}

/** Returns the reply to a call; for a dry run, a quote. */
async function callOrQuote(
  deps: ParseToolCallRequestDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  body: ToolCallBody,
) {
  const { calls } = deps.services
  const callRequest = parseToolCallRequest(deps, request, reply, body)
  if (body['dry_run'] === true) return calls.quote(callRequest)
  // The schema allows every field, so a serializer made of it only takes longer.
  reply.type('application/json; charset=utf-8').serializer(toExactJson)
  return sendCallReply(reply, await calls.refuel(callRequest))
}
