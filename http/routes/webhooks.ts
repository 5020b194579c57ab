import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { invalid, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { SAID } from '../../core/said.ts'
import { placeOf, type Secretive, type Webhook } from '../../persistence/webhooks.ts'
import { answer, asked } from '../idempotency.ts'
import { page, Paging } from '../paging.ts'
import { Body, failures, Id, Instant, instant, maybeInstant, Nullable } from '../schemas.ts'

const tags = ['webhooks']
const Text = Nullable(Type.String())
const MaybeInstant = Nullable(Instant)
const EVENTS = [
  'tool_call',
  'low_balance',
  'topup',
  'agent_ping',
  'bounty_received',
  'all',
] as const

const fields = {
  webhook_id: Type.String(),
  id: Type.String(),
  url: Type.String(),
  events: Type.Array(Type.String()),
  backpack_id: Nullable(Type.String({ description: 'The Backpack whose pager it is.' })),
  state: Type.Enum(['active', 'disabled']),
  disabled_reason: Text,
  disabled_at: MaybeInstant,
  failures: Type.Integer({ description: 'Failed attempts since the last one that was taken.' }),
  failing_since: MaybeInstant,
  dropped: Type.Integer({ description: 'Events that found too many others waiting.' }),
  created_at: Instant,
}
const WebhookView = Type.Object(fields)
const Secretful = Type.Object({
  ...fields,
  secret: Type.String({ description: 'What signs the deliveries. It is shown this once.' }),
})
const params = Type.Object({ id: Id })
const PLACE = /^\d{1,14} \w{1,64}$/

const read = { auth: 'key', scope: 'read' } as const
const write = { auth: 'key', scope: 'funds' } as const
const telling = { ...write, secret: true } as const

const registerWebhook = {
  config: telling,
  schema: {
    operationId: 'registerWebhook',
    summary: 'Get events posted to your address',
    description:
      'Standard Webhooks: `{type, timestamp, data}`, signed. The secret is in this answer only.',
    tags,
    body: Body({
      url: Type.String({
        minLength: 1,
        maxLength: 2_048,
        pattern: SAID,
        description: 'An https address.',
      }),
      events: Type.Optional(
        Type.Array(Type.Enum([...EVENTS]), { minItems: 1, maxItems: 16, uniqueItems: true }),
      ),
    }),
    response: { 200: Secretful, ...failures },
  },
}

const listWebhooks = {
  config: read,
  schema: {
    operationId: 'listWebhooks',
    summary: 'Your webhooks, the pagers of your Backpacks among them',
    tags,
    querystring: Type.Object(Paging),
    response: {
      200: Type.Object({
        webhooks: Type.Array(WebhookView),
        count: Type.Integer(),
        next_cursor: Text,
      }),
      ...failures,
    },
  },
}

const removeWebhook = {
  config: write,
  schema: {
    operationId: 'removeWebhook',
    summary: 'Remove a webhook and what waits for it',
    tags,
    params,
    response: { 200: Type.Object({ id: Type.String(), removed: Type.Boolean() }), ...failures },
  },
}

const rotateSecret = {
  config: telling,
  schema: {
    operationId: 'rotateWebhookSecret',
    summary: 'A new secret; the old one signs beside it for 24 hours',
    tags,
    params,
    response: { 200: Secretful, ...failures },
  },
}

const enableWebhook = {
  config: write,
  schema: {
    operationId: 'enableWebhook',
    summary: 'Take up again a webhook that was disabled',
    tags,
    params,
    response: { 200: WebhookView, ...failures },
  },
}

/** Events posted to addresses that agents name (decisions 41 and 42). */
export const webhookRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, config, once, webhooks } = app.services
  const { store, checkUrl, wake } = webhooks
  const now = () => new Date(clock.now())

  app.post('/api/webhook/register', registerWebhook, async (request, reply) => {
    const { url, events = ['all'] } = request.body
    if (config.production && URL.canParse(url) && new URL(url).protocol !== 'https:')
      throw invalid('/url', 'must be an https address')
    await checkUrl(url)
    const wanted = { agentId: request.agentId, url, events, at: now() }
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        const twin = await store.twin(tx, wanted)
        if (twin !== null) throw exists(twin)
        const made = await store.add(tx, wanted, LIMITS.webhooks)
        if (made === null)
          throw new ServiceError('limit_reached', { limit: LIMITS.webhooks, of: 'webhooks' })
        return { status: 200, body: presentSecret(made) }
      }),
    )
  })

  app.get('/api/webhook', listWebhooks, async ({ agentId, query }) => {
    const { rows, next_cursor } = await page(
      query,
      PLACE,
      (limit, before) => store.listOf(agentId, limit, before),
      placeOf,
    )
    return { webhooks: rows.map(present), count: rows.length, next_cursor }
  })

  app.delete('/api/webhook/:id', removeWebhook, async (request, reply) => {
    const { id } = request.params
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        if (!(await store.remove(tx, request.agentId, id))) throw missing(id)
        return { status: 200, body: { id, removed: true } }
      }),
    )
  })

  app.post('/api/webhook/:id/rotate', rotateSecret, async (request, reply) => {
    const { id } = request.params
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        const rotated = await store.rotate(tx, request.agentId, id, now())
        if (rotated === null) throw missing(id)
        return { status: 200, body: presentSecret(rotated) }
      }),
    )
  })

  app.post('/api/webhook/:id/enable', enableWebhook, async (request, reply) => {
    const { id } = request.params
    const enabled = await answer(
      reply,
      once.write(asked(request), async (tx) => {
        const webhook = await store.enable(tx, request.agentId, id, now())
        if (webhook === null) throw missing(id)
        return { status: 200, body: present(webhook) }
      }),
    )
    wake()
    return enabled
  })
}

export const missing = (id?: string) =>
  new ServiceError('webhook_not_found', id === undefined ? {} : { webhook_id: id })

const exists = ({ id, state }: Webhook) => {
  const how = state === 'disabled' ? `enable it with POST /api/webhook/${id}/enable` : 'use it'
  const detail = `The webhook ${id} gets these events at this address already: ${how}. POST /api/webhook/${id}/rotate gives it a new secret.`
  return new ServiceError('webhook_exists', { webhook_id: id, state, detail })
}

const present = (webhook: Webhook) => ({
  webhook_id: webhook.id,
  id: webhook.id,
  url: webhook.url,
  events: [...webhook.events],
  backpack_id: webhook.backpackId,
  state: webhook.state,
  disabled_reason: webhook.disabledReason,
  disabled_at: maybeInstant(webhook.disabledAt),
  failures: webhook.failures,
  failing_since: maybeInstant(webhook.failingSince),
  dropped: webhook.dropped,
  created_at: instant(webhook.createdAt),
})

const presentSecret = ({ webhook, secret }: Secretive) => ({ ...present(webhook), secret })
