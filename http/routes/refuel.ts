import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { CallReply, CallRequest } from '../../calls/calls.ts'
import { invalid, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { doorOf } from '../door.ts'
import { fingerprint, idempotencyKey } from '../idempotency.ts'
import { failures, isId } from '../schemas.ts'
import { openStream } from '../sse.ts'
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
const Call = Type.Object(
  { ...Fields, dry_run: Type.Optional(Type.Boolean({ description: 'Quote, and run nothing.' })) },
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
      if (request.body.dry_run === true) return calls.quote(asked)
      return send(reply, await calls.refuel(asked))
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
        body: Open,
      },
    },
    async (request, reply) => {
      const body = { ...request.body, tool: request.params.slug }
      return send(reply, await calls.refuel(callOf(request, reply, body)))
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
            description: 'start, progress, partial, text, one result or error, done.',
            content: { 'text/event-stream': { schema: Type.String() } },
          },
          ...failures,
        },
      },
    },
    async (request, reply) => {
      if (request.body.dry_run === true) {
        return reply.send((await calls.quote(callOf(request, reply, request.body))) as never)
      }
      const leave = realtime.count(request.caller.key?.id ?? request.caller.visitorId)
      try {
        await stream(request, reply)
      } finally {
        leave()
      }
      return reply
    },
  )

  async function stream(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const asked = callOf(request, reply, request.body as CallBody)
    const slow = new AbortController()
    const signal = AbortSignal.any([asked.signal, slow.signal])
    let events: ReturnType<typeof openStream> | undefined
    const opened = (replayed: boolean) => {
      if (replayed) reply.header('idempotency-replayed', 'true')
      events ??= openStream(reply, () => slow.abort())
    }
    const emit = (event: string, data: unknown) => events?.send(event, data)
    // Until the stream is open, a refusal is an ordinary answer; after that it is an event of it.
    await calls.stream({ ...asked, signal }, emit, opened).finally(() => events?.end())
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
      const batch = request.body.calls
      await app.limits.draw(request, reply, 'refuel', batch.length - 1)
      const { tool: _tool, body: _body, ...shared } = frame(request, reply)
      const named = batch.map((one) => ({ ...one, tool: slugOf(one.tool) }))
      return send(reply, await calls.pipeline({ ...shared, calls: named }))
    },
  )

  type CallBody = { tool: string } & Record<string, unknown>

  function callOf(request: FastifyRequest, reply: FastifyReply, body: CallBody): CallRequest {
    if (request.bodyBytes > LIMITS.bodyBytes && !LARGE_BODIED.has(body.tool)) {
      throw new ServiceError('body_too_large', { limit_bytes: LIMITS.bodyBytes })
    }
    return { ...frame(request, reply), tool: slugOf(body.tool), body }
  }

  /** A slug as the catalogue spells it; an unknown one is refused by the call itself. */
  const slugOf = (tool: string): string => catalogue.find(tool)?.slug ?? tool
}

/** Everything of a call that is not the tool's: who, under which limits, how private, how long. */
function frame(request: FastifyRequest, reply: FastifyReply): CallRequest {
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

function send(reply: FastifyReply, { status, body, headers, replayed }: CallReply) {
  reply.headers(headers)
  if (replayed) reply.header('idempotency-replayed', 'true')
  reply.code(status)
  // A kept refusal is a problem like any other.
  if (status >= 400) reply.type('application/problem+json').serializer(JSON.stringify)
  return body
}
