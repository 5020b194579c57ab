import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { LIMITS } from '../../core/limits.ts'
import { SAID } from '../../core/said.ts'
import { SIGNAL_TYPES } from '../../persistence/signals.ts'
import { channelNamed, demandReadable } from '../../realtime/channels.ts'
import { signalView } from '../../realtime/views.ts'
import { answer, asked } from '../idempotency.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import { Body, failures, Instant, Nullable, ref, Usdc, Uuid } from '../schemas.ts'
import { noted, spenderOf } from '../spending.ts'

const tags = ['signals']

export const SignalKind = Type.Enum([...SIGNAL_TYPES], { description: '`broadcast` when absent.' })
export const Payload = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
  description: `Any JSON object of at most ${LIMITS.signalPayloadBytes} bytes; empty when absent.`,
})
export const Ttl = Type.Integer({
  minimum: LIMITS.signalLeastTtlSeconds,
  maximum: LIMITS.signalMostTtlSeconds,
  description: `Seconds until it expires; ${LIMITS.signalTtlSeconds} when absent.`,
})
const ChannelName = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: SAID,
  description:
    'Free-form, by convention `domain:topic` or `swarm:any`. `agent:<uuid>` is the inbox of an agent, `agent:me` the own one: anybody may publish there, its owner alone may read.',
})

const Signal = Type.Object(
  {
    id: Type.String({ description: 'Decimal; the cursor of every stream of signals.' }),
    channel: Type.String(),
    type: SignalKind,
    from_agent_id: Uuid,
    payload: Payload,
    created_at: Instant,
    expires_at: Instant,
  },
  { $id: 'Signal' },
)

const publishSignal = {
  config: { auth: 'key', scope: 'tools', bound: 'pays' } as const,
  schema: {
    operationId: 'publishSignal',
    summary: 'Publish a signal on a channel, for 0.001 USDC',
    tags,
    body: Body({
      channel: ChannelName,
      type: Type.Optional(SignalKind),
      payload: Type.Optional(Payload),
      ttl_seconds: Type.Optional(Ttl),
    }),
    response: {
      200: Type.Object({
        id: Nullable(Type.String()),
        call_id: Uuid,
        channel: Type.String(),
        type: SignalKind,
        created_at: Instant,
        expires_at: Instant,
        cost_usdc: Usdc,
        balance_usdc: Usdc,
      }),
      ...failures,
    },
  },
}

const recentSignals = {
  config: { auth: 'optional', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'recentSignals',
    summary: 'Signals that have not expired, newest first; without a channel, of all public ones',
    tags,
    querystring: Type.Object({ ...Paging, channel: Type.Optional(ChannelName) }),
    response: {
      200: Type.Object({
        signals: Type.Array(ref(Signal)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

const activeChannels = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'activeChannels',
    summary: 'Public channels with signals in the last 24 hours, the latest first',
    tags,
    querystring: Type.Object(Paging),
    response: {
      200: Type.Object({
        channels: Type.Array(
          Type.Object({
            channel: Type.String(),
            signals_24h: Type.Integer(),
            last_signal_id: Type.String(),
            last_signal_at: Instant,
          }),
        ),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

/** The signal bus over plain HTTP. */
export const signalRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, publish, realtime, signals } = app.services
  app.addSchema(Signal)

  app.post('/api/signal/publish', publishSignal, async (request, reply) => {
    const { channel, type, payload, ttl_seconds: ttlSeconds } = request.body
    const publisher = { agentId: request.agentId, ...spenderOf(request) }
    const wanted = { channel, type, payload, ttlSeconds }
    const work = () => publish(asked(request), publisher, wanted)
    return answer(reply, noted(request, 'signal_publish', work))
  })

  app.get('/api/signal/recent', recentSignals, async (request) => {
    const agentId = request.agentId || null
    const { channel: name } = request.query
    const channel = name === undefined ? null : channelNamed(name, agentId, '/channel')
    if (channel !== null) demandReadable(channel, agentId)
    const { rows, next_cursor } = await page(
      request.query,
      CURSOR.integer,
      (limit, before) => signals.recent(channel, new Date(clock.now()), limit, before),
      ({ id }) => String(id),
    )
    return { signals: rows.map(signalView), count: rows.length, next_cursor }
  })

  app.get('/api/signal/channels', activeChannels, async (request) => {
    const all = await realtime.channels()
    const { rows, next_cursor } = await page(
      request.query,
      CURSOR.integer,
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
