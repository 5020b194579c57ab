import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { LIMITS } from '../../../core/limits.ts'
import { NOT_BLANK_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import { SIGNAL_TYPES } from '../../../persistence/realtime/channel-signal-store.ts'
import { parseChannelName, assertChannelReadable } from '../../../realtime/signal-channel-names.ts'
import { toSignalView } from '../../../realtime/realtime-event-views.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  StrictBody,
  errorResponses,
  DateTimeSchema,
  Nullable,
  schemaRef,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'
import {
  withBackpackRefusalLogging,
  toRequestSpendingLimits,
} from '../../auth/request-api-key-and-backpack.ts'

/** Routes for signals, the publish/subscribe bus of agents. */

const tags = ['signals']

export const SignalTypeSchema = Type.Enum([...SIGNAL_TYPES], {
  description: '`broadcast` when absent.',
})
export const SignalPayloadSchema = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
  description: `Any JSON object of at most ${LIMITS.signalPayloadBytes} bytes; empty when absent.`,
})
export const SignalTtlSchema = Type.Integer({
  minimum: LIMITS.signalMinTtlSeconds,
  maximum: LIMITS.signalMaxTtlSeconds,
  description: `Seconds until it expires; ${LIMITS.signalTtlSeconds} when absent.`,
})
const ChannelNameSchema = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: NOT_BLANK_PATTERN,
  description:
    'Free-form, by convention `domain:topic` or `swarm:any`. `agent:<uuid>` is the inbox of an agent, and `agent:me` your own: anybody may publish there, only its owner may read.',
})

const SignalSchema = Type.Object(
  {
    id: Type.String({ description: 'Decimal; the cursor of every stream of signals.' }),
    channel: Type.String(),
    type: SignalTypeSchema,
    from_agent_id: Nullable(
      Type.String({
        format: 'uuid',
        description: 'Without a key null unless the sender is discoverable.',
      }),
    ),
    payload: SignalPayloadSchema,
    created_at: DateTimeSchema,
    expires_at: DateTimeSchema,
  },
  { $id: 'Signal' },
)

const publishSignal = {
  config: { auth: 'key', scope: 'tools', bound: 'pays', keeps: 0 } as const,
  schema: {
    operationId: 'publishSignal',
    summary: 'Publish a signal on a channel for 0.001 USDC',
    tags,
    body: StrictBody({
      channel: ChannelNameSchema,
      type: Type.Optional(SignalTypeSchema),
      payload: Type.Optional(SignalPayloadSchema),
      ttl_seconds: Type.Optional(SignalTtlSchema),
    }),
    response: {
      200: Type.Object({
        id: Nullable(Type.String()),
        call_id: UuidSchema,
        channel: Type.String(),
        type: SignalTypeSchema,
        created_at: DateTimeSchema,
        expires_at: DateTimeSchema,
        cost_usdc: ResponseUsdcAmountSchema,
        balance_usdc: ResponseUsdcAmountSchema,
      }),
      ...errorResponses,
    },
  },
}

const recentSignals = {
  config: { auth: 'optional', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'recentSignals',
    summary: 'Signals that have not expired, newest first; without a channel, of all public ones',
    tags,
    querystring: Type.Object({ ...PaginationQuery, channel: Type.Optional(ChannelNameSchema) }),
    response: {
      200: Type.Object({
        signals: Type.Array(schemaRef(SignalSchema)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const activeChannels = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'activeChannels',
    summary: 'Public channels with signals in the last 24 hours, latest first',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        channels: Type.Array(
          Type.Object({
            channel: Type.String(),
            signals_24h: Type.Integer(),
            last_signal_id: Type.String(),
            last_signal_at: DateTimeSchema,
          }),
        ),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

/** The signal bus over REST. */
export const signalRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, publish, realtime, signals } = app.services
  app.addSchema(SignalSchema)

  app.post('/api/signal/publish', publishSignal, async (request, reply) => {
    const { channel, type, payload, ttl_seconds: ttlSeconds } = request.body
    const publisher = { agentId: request.agentId, ...toRequestSpendingLimits(request) }
    const wanted = { channel, type, payload, ttlSeconds }
    const work = () => publish(toIdempotentRequest(request), publisher, wanted)
    return sendIdempotentReply(reply, withBackpackRefusalLogging(request, 'signal_publish', work))
  })

  app.get('/api/signal/recent', recentSignals, async (request) => {
    const agentId = request.agentId || null
    const { channel: name } = request.query
    const channel = name === undefined ? null : parseChannelName(name, agentId, '/channel')
    if (channel !== null) assertChannelReadable(channel, agentId)
    const { rows, next_cursor } = await paginate(
      request.query,
      CURSOR_PATTERNS.integer,
      (limit, before) => signals.recent(channel, new Date(clock.now()), limit, before),
      ({ id }) => String(id),
    )
    const shown = rows.map((one) => ({
      ...toSignalView(one),
      from_agent_id: agentId !== null || one.isPublic ? one.from : null,
    }))
    return { signals: shown, count: rows.length, next_cursor }
  })

  app.get('/api/signal/channels', activeChannels, async (request) => {
    const all = await realtime.channels()
    const { rows, next_cursor } = await paginate(
      request.query,
      CURSOR_PATTERNS.integer,
      async (limit, before) =>
        all.filter(({ lastId }) => before === null || lastId < BigInt(before)).slice(0, limit),
      ({ lastId }) => String(lastId),
    )
    const channels = rows.map((row) => ({
      channel: row.channel,
      signals_24h: row.signals,
      last_signal_id: String(row.lastId),
      last_signal_at: row.lastAt.toISOString(),
    }))
    return { channels, count: rows.length, next_cursor }
  })
}
