import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { CallReply, CallRequest, PipelineRequest } from '../../calls/calls.ts'
import { invalid, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { doorOf } from '../door.ts'
import type { Limits } from '../plugins/rate-limits.ts'
import { fingerprint, idempotencyKey } from '../idempotency.ts'
import { failures, isId } from '../schemas.ts'
import { openStream, type EventStream } from '../sse.ts'
import { taskHeader } from './tasks.ts'

const LARGE_BODIED = new Set(['code_sandbox', 'code-sandbox'])

const Fields = {
  tool: Type.String({ minLength: 1, maxLength: 64, description: 'The slug of a tool.' }),
  query: Type.Optional(Type.String({ description: 'For tools that take one.' })),
  params: Type.Optional(
    Type.Object(
      {},
      {
        additionalProperties: true,
        description: 'Tool fields too; one at the top level wins over its namesake here.',
      },
    ),
  ),
}
const dryRun = {
  dry_run: Type.Optional(Type.Boolean({ description: 'Quote, and run nothing.' })),
}
/** The fields of a tool that the address names. */
export const Dry = Type.Object(dryRun, { additionalProperties: true })
const Call = Type.Object(
  { ...Fields, ...dryRun },
  { additionalProperties: true, description: "The tool's own fields sit beside `tool`." },
)
const Open = Type.Object({}, { additionalProperties: true })

const steering = Type.Object(
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

const config = { auth: 'optional', scope: 'tools', rate: 'refuel', passBadKey: true } as const
const bodyLimit = LIMITS.largeBodyBytes
const call = (operationId: string, summary: string) => ({
  operationId,
  summary,
  tags: ['tools'],
  headers: steering,
  response: { 200: Open, ...failures },
})

/** Where tools are called: spec 4.1, decisions 18 and 19. */
export const refuelRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls, catalogue, realtime } = app.services

  app.post(
    '/api/refuel',
    { config, bodyLimit, schema: { ...call('refuel', 'Call a tool'), body: Call } },
    async (request, reply) => {
      const asked = callOf(request, reply, request.body)
      return request.body.dry_run === true ? calls.quote(asked) : answer(request, reply, asked)
    },
  )

  app.post(
    '/api/t/:slug',
    {
      config,
      bodyLimit,
      schema: {
        ...call('callTool', 'Call a tool at an address of its own, and pay for it in one request'),
        params: Type.Object({ slug: Type.String({ minLength: 1, maxLength: 64 }) }),
        body: Dry,
      },
    },
    async (request, reply) => {
      const asked = callOf(request, reply, { ...request.body, tool: request.params.slug })
      return request.body.dry_run === true ? calls.quote(asked) : answer(request, reply, asked)
    },
  )

  app.post(
    '/api/quote',
    {
      config,
      bodyLimit,
      schema: {
        ...call('quote', 'What a call would cost, and whether it would be refused'),
        body: Call,
      },
    },
    async (request, reply) => calls.quote(callOf(request, reply, request.body)),
  )

  app.post(
    '/api/refuel/stream',
    {
      config,
      bodyLimit,
      schema: {
        ...call('refuelStream', 'Call a tool and receive its output as server-sent events'),
        body: Call,
        response: {
          200: {
            description:
              'start, progress, partial, text, one result or error, done. With `tool: "pipeline"` and `calls`, as `/api/pipeline` takes them, each call is a partial when it is answered; a batch that a payment buys is delivered whole or not at all, so its stream opens when it is bought and has the result alone. What became of a payment is in `PAYMENT-RESPONSE`, `X-PAYMENT-RESPONSE` or `Payment-Receipt` where it is known when the stream opens: it has settled, or its answer is repeated. Else it is in the `_meta` of the result, as `payment_response` or `x_payment_response`, with the value that the header would have.',
            content: { 'text/event-stream': { schema: Type.String() } },
          },
          ...failures,
        },
      },
    },
    async (request, reply) => {
      const { tool } = request.body
      const isBatch = tool === 'pipeline' && catalogue.find(tool) === undefined
      if (request.body.dry_run === true && !isBatch) {
        return reply.send((await calls.quote(callOf(request, reply, request.body))) as never)
      }
      const batch = isBatch
        ? await batchOf(request, reply, (request.body as CallBody)['calls'])
        : null
      if (batch === null) await demandPace(app.limits, request.caller, [slugOf(tool)])
      const { key, agentId, visitorId } = request.caller
      const leave = realtime.count({ id: key?.id ?? visitorId, agentId })
      try {
        await stream(request, reply, batch)
      } finally {
        leave()
      }
      return reply
    },
  )

  async function stream(
    request: FastifyRequest,
    reply: FastifyReply,
    batch: PipelineRequest | null,
  ): Promise<void> {
    const asked = batch ?? callOf(request, reply, request.body as CallBody)
    let events: EventStream | undefined
    const opened = (replayed: boolean, headers: CallReply['headers'] = {}) => {
      reply.headers(headers)
      if (replayed) reply.header('idempotency-replayed', 'true')
      events ??= openStream(reply, { resumes: false })
    }
    const emit = (event: string, data: unknown) => {
      // A reader that is behind misses steps, never what they led to.
      if (event === 'progress' && events?.isBehind() === true) return
      events?.send(event, data)
    }
    // Until the stream is open, a refusal is an ordinary answer; after that it is an event of it.
    const work =
      'calls' in asked
        ? calls.streamPipeline(asked, emit, opened)
        : calls.stream(asked, emit, opened)
    await work.finally(() => events?.end())
    // What is not read yet is held for its reader: so is the seat.
    await events?.closed
  }

  app.post(
    '/api/pipeline',
    {
      config,
      bodyLimit,
      schema: {
        ...call('pipeline', 'Call up to ten tools in parallel'),
        body: Type.Object({
          calls: Type.Array(Type.Object(Fields, { additionalProperties: true }), {
            minItems: 1,
            maxItems: LIMITS.pipelineCalls,
          }),
        }),
      },
    },
    async (request, reply) => {
      return send(reply, await calls.pipeline(await batchOf(request, reply, request.body.calls)))
    },
  )

  /** Checks the shape of a batch; each of its calls draws on the rate of its caller. */
  async function batchOf(
    request: FastifyRequest,
    reply: FastifyReply,
    batch: unknown,
  ): Promise<PipelineRequest> {
    const most = LIMITS.pipelineCalls
    if (((request.body as CallBody)['dry_run'] ?? false) !== false)
      throw invalid('/dry_run', 'is not for batches: ask /api/quote for each call')
    if (!Array.isArray(batch) || batch.length === 0 || batch.length > most)
      throw invalid('/calls', `must be a list of 1 to ${most} calls`)
    const named = (batch as unknown[]).map((one, at) => {
      if (!isCall(one)) throw invalid(`/calls/${at}/tool`, 'must name a tool')
      return { ...one, tool: slugOf(one.tool) }
    })
    await app.limits.draw(request, reply, 'refuel', named.length - 1)
    const slugs = named.map(({ tool }) => tool)
    await demandPace(app.limits, request.caller, slugs)
    const { tool: _tool, body: _body, ...shared } = frame(request, reply)
    return { ...shared, calls: named }
  }

  type CallBody = { tool: string } & Record<string, unknown>

  const isCall = (one: unknown): one is CallBody =>
    typeof one === 'object' && one !== null && typeof (one as CallBody).tool === 'string'

  /** The answer to one call, whichever address it came to. */
  async function answer(request: FastifyRequest, reply: FastifyReply, asked: CallRequest) {
    await demandPace(app.limits, request.caller, [asked.tool])
    return send(reply, await calls.refuel(asked))
  }

  function callOf(request: FastifyRequest, reply: FastifyReply, given: CallBody): CallRequest {
    // What asks for a quote has been heard: it is no field.
    const { dry_run: _heard, ...rest } = given
    const body: CallBody = { ...rest, tool: given.tool }
    if (request.bodyBytes > LIMITS.bodyBytes && !LARGE_BODIED.has(body.tool)) {
      throw new ServiceError('body_too_large', { limit_bytes: LIMITS.bodyBytes })
    }
    return { ...frame(request, reply), tool: slugOf(body.tool), body }
  }

  /** A slug as the catalogue spells it; an unknown one is refused by the call itself. */
  const slugOf = (tool: string): string => catalogue.find(tool)?.slug ?? tool
}

/**
 * Crews of an agent a minute, whatever came of them: one that failed is paid back, and what it asked
 * of others was asked all the same.
 */
export async function demandPace(
  limits: Limits,
  { agentId }: CallRequest['caller'],
  slugs: readonly string[],
): Promise<void> {
  if (agentId === null) return
  for (const _crew of slugs.filter((slug) => slug === 'crew')) await limits.drawKey(agentId, 'crew')
}

/** Everything of a call that is not the tool's: who, under which limits, how private, how long. */
export function frame(request: FastifyRequest, reply: FastifyReply): CallRequest {
  const key = idempotencyKey(request)
  return {
    tool: '',
    body: {},
    caller: request.caller,
    taskId: taskHeader(request),
    backpackId: backpackHeader(request),
    ghost: ghostHeader(request),
    idempotency: key === null ? null : { key, hash: fingerprint(request) },
    door: doorOf(request),
    signal: goneSignal(reply),
    requestId: request.id,
  }
}

function backpackHeader({ headers }: FastifyRequest): string | null {
  const id = headers['x-backpack-id']
  if (id === undefined) return null
  if (isId(id)) return id
  throw invalid('/headers/x-backpack-id', 'must be the id of a Backpack')
}

function ghostHeader({ headers }: FastifyRequest): CallRequest['ghost'] {
  switch (headers['x-ghost-mode']) {
    case undefined:
      return 'off'
    case 'stealth':
    case 'shadow':
      return 'stealth'
    case 'observe':
      return 'observe'
    default:
      throw invalid('/headers/x-ghost-mode', 'must be stealth, observe or shadow')
  }
}

/** Aborts when the caller hangs up before it has its answer. */
function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort(new ServiceError('cancelled'))
  })
  return gone.signal
}

export function send(reply: FastifyReply, { status, body, headers, replayed }: CallReply) {
  reply.headers(headers)
  if (replayed) reply.header('idempotency-replayed', 'true')
  reply.code(status)
  // A kept refusal is a problem like any other.
  if (status >= 400) reply.type('application/problem+json').serializer(JSON.stringify)
  return body
}
