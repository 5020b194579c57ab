import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { HOUR, SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { limited } from '../../core/limited.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Delivery } from '../../persistence/deliveries.ts'
import type { Tx } from '../../persistence/once.ts'
import { answer, asked } from '../idempotency.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import { failures, Id, Instant, instant, maybeInstant, Nullable } from '../schemas.ts'
import type { Services } from '../services.ts'
import { missing } from './webhooks.ts'

const tags = ['webhooks']
const Text = Nullable(Type.String())
const MaybeInstant = Nullable(Instant)
const DeliveryView = Type.Object({
  delivery_id: Type.String(),
  id: Type.String({ description: 'The `webhook-id` of every attempt.' }),
  type: Type.String(),
  data: Type.Object({}, { additionalProperties: true }),
  timestamp: Instant,
  created_at: Instant,
  state: Type.Enum(['pending', 'delivered', 'failed']),
  attempts: Type.Integer(),
  last_status: Nullable(Type.Integer()),
  last_error: Text,
  last_ms: Nullable(Type.Integer()),
  last_attempt_at: MaybeInstant,
  next_attempt_at: MaybeInstant,
})
const params = Type.Object({ id: Id })

const read = { auth: 'key', scope: 'read' } as const
const write = { auth: 'key', scope: 'funds' } as const

const testWebhooks = {
  config: write,
  schema: {
    operationId: 'testWebhooks',
    summary: 'Send a test event to your webhooks, or to one of them',
    description: 'Webhooks for which too much waits already are passed over, and it is counted.',
    tags,
    body: Type.Object({ webhook_id: Type.Optional(Id) }, { additionalProperties: false }),
    response: {
      200: Type.Object({
        deliveries: Type.Array(
          Type.Object({ webhook_id: Type.String(), delivery_id: Type.String() }),
        ),
      }),
      ...failures,
    },
  },
}

const listDeliveries = {
  config: read,
  schema: {
    operationId: 'listDeliveries',
    summary: 'What was and will be delivered to a webhook, newest first',
    tags,
    params,
    querystring: Type.Object({
      ...Paging,
      state: Type.Optional(Type.Enum(['pending', 'delivered', 'failed'])),
    }),
    response: {
      200: Type.Object({
        deliveries: Type.Array(DeliveryView),
        count: Type.Integer(),
        next_cursor: Text,
      }),
      ...failures,
    },
  },
}

const replayDelivery = {
  config: write,
  schema: {
    operationId: 'replayDelivery',
    summary: 'Deliver something once more, under the same webhook-id',
    tags,
    params: Type.Object({ id: Id, delivery: Id }),
    response: { 200: DeliveryView, ...failures },
  },
}

/** What is on its way to webhooks, and what has arrived: decision 41. */
export const webhookDeliveryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, once, webhooks } = app.services
  const { store, deliveries, wake } = webhooks
  const now = () => new Date(clock.now())

  app.post('/api/webhook/test', testWebhooks, async (request, reply) => {
    const { webhook_id: only } = request.body
    const sent = await answer(
      reply,
      once.write(asked(request), async (tx) => {
        const targets = await store.active(tx, request.agentId, only ?? null)
        if (targets.length === 0) throw missing(only)
        await countTest(app.services, tx, request.agentId)
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
    if ((await store.find(agentId, params.id)) === null) throw missing(params.id)
    const { state = null } = query
    const { rows, next_cursor } = await page(
      query,
      CURSOR.integer,
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
      const replayed = await answer(
        reply,
        once.write(asked(request), async (tx) => {
          const webhook = await store.find(request.agentId, id)
          if (webhook === null) throw missing(id)
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

async function countTest({ clock, webhooks }: Services, tx: Tx, agentId: string): Promise<void> {
  const [now, most] = [clock.now(), LIMITS.webhookTestsPerHour]
  const counted = { most, since: new Date(now - HOUR), at: new Date(now) }
  const full = await webhooks.store.countTest(tx, agentId, counted)
  if (full === null) return
  const wait = Math.ceil((full.first.getTime() + HOUR - now) / SECOND)
  const limit = { name: 'webhook_tests', what: 'test events', most, per: 'agent' } as const
  throw limited({ ...limit, seconds: HOUR / SECOND }, Math.max(1, wait))
}

const presentDelivery = (delivery: Delivery) => ({
  delivery_id: delivery.id,
  id: delivery.id,
  type: delivery.type,
  data: delivery.data,
  timestamp: instant(delivery.at),
  created_at: instant(delivery.at),
  state: delivery.state,
  attempts: delivery.attempts,
  last_status: delivery.status,
  last_error: delivery.error,
  last_ms: delivery.ms,
  last_attempt_at: maybeInstant(delivery.lastAt),
  next_attempt_at: maybeInstant(delivery.dueAt),
})
