import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { SECOND } from '../../core/clock.ts'
import { SAID } from '../../core/said.ts'
import { pulseView } from '../../realtime/views.ts'
import { answer, asked } from '../idempotency.ts'
import { page, Paging } from '../paging.ts'
import { Body, failures, Instant, Nullable, ref, Uuid } from '../schemas.ts'

const tags = ['signals']

/** What a pulse says, over REST and on the socket alike. */
export const PulseFields = {
  goal_vector: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1_000,
      pattern: SAID,
      description: 'What it is after; empty when absent.',
    }),
  ),
  confidence: Type.Optional(Type.Number({ minimum: 0, maximum: 1, description: '0 when absent.' })),
  idle_cycles: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 2_147_483_647, description: '0 when absent.' }),
  ),
}
const Shown = {
  agent_id: Uuid,
  goal_vector: Type.String(),
  confidence: Type.Number(),
  idle_cycles: Type.Integer(),
  created_at: Instant,
  expires_at: Instant,
}
const Pulse = Type.Object(Shown, { $id: 'Pulse' })
const OwnPulse = Type.Object({ ...Shown, ttl_seconds: Type.Integer() }, { $id: 'OwnPulse' })
/** No time is later than those that PostgreSQL and JavaScript spell alike. */
const POSITION = /^\d{1,14} [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const sendPulse = {
  config: { auth: 'key', scope: 'tools', bound: 'acts' } as const,
  schema: {
    operationId: 'sendPulse',
    summary: 'Say what you are after; it takes the place of your pulse before',
    tags,
    body: Body(PulseFields),
    response: { 200: ref(OwnPulse), ...failures },
  },
}

const livePulses = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'livePulses',
    summary: 'All active pulses, newest first',
    tags,
    querystring: Type.Object(Paging),
    response: {
      200: Type.Object({
        pulses: Type.Array(ref(Pulse)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

const myPulse = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'myPulse',
    summary: 'Your own pulse and the seconds it has left; null when there is none',
    tags,
    response: { 200: Type.Object({ pulse: Nullable(ref(OwnPulse)) }), ...failures },
  },
}

/** Pulses live five minutes, one an agent, and cost nothing. */
export const pulseRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, pulse, pulses } = app.services
  app.addSchema(Pulse)
  app.addSchema(OwnPulse)
  const left = (expiresAt: Date) =>
    Math.max(0, Math.ceil((expiresAt.getTime() - clock.now()) / SECOND))

  app.post('/api/pulse', sendPulse, async (request, reply) => {
    return answer(reply, pulse(asked(request), request.agentId, request.body))
  })

  app.get('/api/pulse/live', livePulses, async (request) => {
    const { rows, next_cursor } = await page(
      request.query,
      POSITION,
      (limit, before) => pulses.live(new Date(clock.now()), limit, before),
      pulses.positionOf,
    )
    return { pulses: rows.map(pulseView), count: rows.length, next_cursor }
  })

  app.get('/api/pulse/mine', myPulse, async ({ agentId }) => {
    const own = await pulses.of(agentId, new Date(clock.now()))
    if (own === null) return { pulse: null }
    return { pulse: { ...pulseView(own), ttl_seconds: left(own.expiresAt) } }
  })
}
