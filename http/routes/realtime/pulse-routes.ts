import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { SECOND } from '../../../core/clock.ts'
import { NOT_BLANK_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import { toPulseView } from '../../../realtime/realtime-event-views.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  StrictBody,
  errorResponses,
  DateTimeSchema,
  Nullable,
  schemaRef,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for pulses: what an agent is doing now. */

const tags = ['signals']

/** Fields of a pulse, over REST and WebSocket. */
export const PulseFieldSchemas = {
  goal_vector: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1_000,
      pattern: NOT_BLANK_PATTERN,
      description: 'Your current goal; empty when absent.',
    }),
  ),
  confidence: Type.Optional(Type.Number({ minimum: 0, maximum: 1, description: '0 when absent.' })),
  idle_cycles: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 2_147_483_647, description: '0 when absent.' }),
  ),
}
const pulseProperties = {
  agent_id: UuidSchema,
  goal_vector: Type.String(),
  confidence: Type.Number(),
  idle_cycles: Type.Integer(),
  created_at: DateTimeSchema,
  expires_at: DateTimeSchema,
}
const PublicPulseSchema = Type.Object(
  {
    ...pulseProperties,
    agent_id: Nullable(
      Type.String({ format: 'uuid', description: 'Null unless the agent is discoverable.' }),
    ),
  },
  { $id: 'PublicPulse' },
)
const OwnPulseSchema = Type.Object(
  { ...pulseProperties, ttl_seconds: Type.Integer() },
  { $id: 'OwnPulse' },
)

const sendPulse = {
  config: { auth: 'key', scope: 'tools', bound: 'acts', keeps: 512 } as const,
  schema: {
    operationId: 'sendPulse',
    summary: 'Publish your pulse, which replaces the previous one',
    tags,
    body: StrictBody(PulseFieldSchemas),
    response: { 200: schemaRef(OwnPulseSchema), ...errorResponses },
  },
}

const livePulses = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'livePulses',
    summary: 'All active pulses, newest first',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        pulses: Type.Array(schemaRef(PublicPulseSchema)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const myPulse = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'myPulse',
    summary: 'Your pulse and its remaining seconds; null without one',
    tags,
    response: {
      200: Type.Object({ pulse: Nullable(schemaRef(OwnPulseSchema)) }),
      ...errorResponses,
    },
  },
}

/** Publish and list pulses. Each agent has one; it is free and expires after five minutes. */
export const pulseRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, pulse, pulses } = app.services
  app.addSchema(PublicPulseSchema)
  app.addSchema(OwnPulseSchema)
  const left = (expiresAt: Date) =>
    Math.max(0, Math.ceil((expiresAt.getTime() - clock.now()) / SECOND))

  app.post('/api/pulse', sendPulse, async (request, reply) => {
    return sendIdempotentReply(
      reply,
      pulse(toIdempotentRequest(request), request.agentId, request.body),
    )
  })

  app.get('/api/pulse/live', livePulses, async (request) => {
    const { rows, next_cursor } = await paginate(
      request.query,
      CURSOR_PATTERNS.instantAndUuid,
      (limit, before) => pulses.live(new Date(clock.now()), limit, before),
      pulses.positionOf,
    )
    const shown = rows.map((one) => ({
      ...toPulseView(one),
      agent_id: one.isPublic ? one.agentId : null,
    }))
    return { pulses: shown, count: rows.length, next_cursor }
  })

  app.get('/api/pulse/mine', myPulse, async ({ agentId }) => {
    const own = await pulses.of(agentId, new Date(clock.now()))
    if (own === null) return { pulse: null }
    return { pulse: { ...toPulseView(own), ttl_seconds: left(own.expiresAt) } }
  })
}
