import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { HOUR, SECOND } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { rateLimitError } from '../../../core/rate-limit-error.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { WebhookDelivery } from '../../../persistence/webhooks/webhook-delivery-rows.ts'
import type { DatabaseTransaction } from '../../../persistence/idempotency/idempotent-writes.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  errorResponses,
  PathIdSchema,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
} from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'
import { webhookNotFoundError } from './webhook-routes.ts'

/** Routes for webhook deliveries (decision 41). */

const tags = ['webhooks']
const NullableStringSchema = Nullable(Type.String())
const NullableTime = Nullable(DateTimeSchema)
const DeliveryView = Type.Object({
  delivery_id: Type.String(),
  id: Type.String({ description: 'The `webhook-id` of every attempt.' }),
  type: Type.String(),
  data: Type.Object({}, { additionalProperties: true }),
  timestamp: DateTimeSchema,
  created_at: DateTimeSchema,
  state: Type.Enum(['pending', 'delivered', 'failed']),
  attempts: Type.Integer(),
  last_status: Nullable(Type.Integer()),
  last_error: NullableStringSchema,
  last_ms: Nullable(Type.Integer()),
  last_attempt_at: NullableTime,
  next_attempt_at: NullableTime,
})
const params = Type.Object({ id: PathIdSchema })

const read = { auth: 'key', scope: 'read' } as const
const write = { auth: 'key', scope: 'funds', servesFrozen: true } as const

const testWebhooks = {
  config: write,
  schema: {
    operationId: 'testWebhooks',
    summary: 'Send a test event to your webhooks, or to one of them',
    description: 'Webhooks with too many pending deliveries are skipped and counted.',
    tags,
    body: Type.Object({ webhook_id: Type.Optional(PathIdSchema) }, { additionalProperties: false }),
    response: {
      200: Type.Object({
        deliveries: Type.Array(
          Type.Object({ webhook_id: Type.String(), delivery_id: Type.String() }),
        ),
      }),
      ...errorResponses,
    },
  },
}

const listDeliveries = {
  config: read,
  schema: {
    operationId: 'listDeliveries',
    summary: 'Past and pending deliveries of a webhook, newest first',
    tags,
    params,
    querystring: Type.Object({
      ...PaginationQuery,
      state: Type.Optional(Type.Enum(['pending', 'delivered', 'failed'])),
    }),
    response: {
      200: Type.Object({
        deliveries: Type.Array(DeliveryView),
        count: Type.Integer(),
        next_cursor: NullableStringSchema,
      }),
      ...errorResponses,
    },
  },
}

const replayDelivery = {
  config: write,
  schema: {
    operationId: 'replayDelivery',
    summary: 'Redeliver an event with the same webhook-id',
    tags,
    params: Type.Object({ id: PathIdSchema, delivery: PathIdSchema }),
    response: { 200: DeliveryView, ...errorResponses },
  },
}

/** Test events, deliveries of a webhook, and redelivery. */
export const webhookDeliveryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, once, webhooks } = app.services
  const { store, deliveries, wake } = webhooks
  const now = () => new Date(clock.now())

  app.post('/api/webhook/test', testWebhooks, async (request, reply) => {
    const { webhook_id: only } = request.body
    const sent = await sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const targets = await store.active(tx, request.agentId, only ?? null)
        if (targets.length === 0) throw webhookNotFoundError(only)
        await countTestEvent(app.services, tx, request.agentId)
        const data = { agent_id: request.agentId, message: 'This is a test.' }
        const test = { data, most: LIMITS.webhookBacklog, at: now() }
        const made = []
        for (const id of targets) {
          const delivery = await deliveries.addTest(tx, id, test)
          if (delivery !== null) made.push({ webhook_id: id, delivery_id: delivery })
        }
        return { status: 200, body: { deliveries: made } }
      }),
    )
    wake()
    return sent
  })

  app.get('/api/webhook/:id/deliveries', listDeliveries, async ({ agentId, params, query }) => {
    if ((await store.find(agentId, params.id)) === null) throw webhookNotFoundError(params.id)
    const { state = null } = query
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.integer,
      (limit, before) => deliveries.listOf(params.id, { state }, limit, before),
      ({ seq }) => String(seq),
    )
    return { deliveries: rows.map(presentDelivery), count: rows.length, next_cursor }
  })

  app.post(
    '/api/webhook/:id/deliveries/:delivery/replay',
    replayDelivery,
    async (request, reply) => {
      const { id, delivery } = request.params
      const replayed = await sendIdempotentReply(
        reply,
        once.runTransaction(toIdempotentRequest(request), async (tx) => {
          const webhook = await store.find(request.agentId, id)
          if (webhook === null) throw webhookNotFoundError(id)
          if (webhook.state === 'disabled')
            throw new ServiceError('webhook_disabled', { webhook_id: id })
          const again = await deliveries.replay(tx, id, delivery, now())
          if (again === null)
            throw new ServiceError('delivery_not_found', { delivery_id: delivery })
          return { status: 200, body: presentDelivery(again) }
        }),
      )
      wake()
      return replayed
    },
  )
}

async function countTestEvent(
  { clock, webhooks }: HttpServices,
  tx: DatabaseTransaction,
  agentId: string,
): Promise<void> {
  const [now, maxTests] = [clock.now(), LIMITS.webhookTestsPerHour]
  const counted = { most: maxTests, since: new Date(now - HOUR), at: new Date(now) }
  const full = await webhooks.store.countTest(tx, agentId, counted)
  if (full === null) return
  const wait = Math.ceil((full.first.getTime() + HOUR - now) / SECOND)
  const limit = {
    name: 'webhook_tests',
    subject: 'test events',
    max: maxTests,
    per: 'agent',
  } as const
  throw rateLimitError({ ...limit, windowSeconds: HOUR / SECOND }, Math.max(1, wait))
}

const presentDelivery = (delivery: WebhookDelivery) => ({
  delivery_id: delivery.id,
  id: delivery.id,
  type: delivery.type,
  data: delivery.data,
  timestamp: toIsoTime(delivery.at),
  created_at: toIsoTime(delivery.at),
  state: delivery.state,
  attempts: delivery.attempts,
  last_status: delivery.status,
  last_error: delivery.error,
  last_ms: delivery.ms,
  last_attempt_at: toIsoTimeOrNull(delivery.lastAt),
  next_attempt_at: toIsoTimeOrNull(delivery.dueAt),
})
