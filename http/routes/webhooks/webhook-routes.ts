import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { LIMITS } from '../../../core/limits.ts'
import {
  toWebhookCursor,
  type WebhookWithSecret,
  type Webhook,
} from '../../../persistence/webhooks/webhook-store.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  StrictBody,
  errorResponses,
  PathIdSchema,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  WebAddress,
} from '../../schemas/shared-schemas.ts'

/** Routes for webhooks (decisions 41 and 42). */

const tags = ['webhooks']
const NullableStringSchema = Nullable(Type.String())
const NullableTime = Nullable(DateTimeSchema)
const EVENTS = [
  'tool_call',
  'low_balance',
  'topup',
  'agent_ping',
  'bounty_received',
  'all',
] as const

const webhookFields = {
  webhook_id: Type.String(),
  id: Type.String(),
  url: Type.String(),
  events: Type.Array(Type.String()),
  backpack_id: Nullable(Type.String({ description: 'The Backpack that uses it as its pager.' })),
  state: Type.Enum(['active', 'disabled']),
  disabled_reason: NullableStringSchema,
  disabled_at: NullableTime,
  failures: Type.Integer({ description: 'Failed attempts since the last success.' }),
  failing_since: NullableTime,
  dropped: Type.Integer({ description: 'Events dropped because too many were pending.' }),
  created_at: DateTimeSchema,
}
const WebhookView = Type.Object(webhookFields)
const WebhookSecretResponse = Type.Object({
  ...webhookFields,
  secret: Type.String({ description: 'The signing secret of the deliveries. Shown once.' }),
})
const params = Type.Object({ id: PathIdSchema })
const WEBHOOK_CURSOR_PATTERN = /^\d{1,14} \w{1,64}$/

const read = { auth: 'key', scope: 'read' } as const
const write = { auth: 'key', scope: 'funds', servesFrozen: true } as const
const secretWriteConfig = { ...write, secret: true } as const

const registerWebhook = {
  config: secretWriteConfig,
  schema: {
    operationId: 'registerWebhook',
    summary: 'Register an address for events',
    description:
      'Standard Webhooks: `{type, timestamp, data}`, signed. The secret is returned only here.',
    tags,
    body: StrictBody({
      url: WebAddress('An https address.'),
      events: Type.Optional(
        Type.Array(Type.Enum([...EVENTS]), { minItems: 1, maxItems: 16, uniqueItems: true }),
      ),
    }),
    response: { 200: WebhookSecretResponse, ...errorResponses },
  },
}

const listWebhooks = {
  config: read,
  schema: {
    operationId: 'listWebhooks',
    summary: 'Your webhooks, including pagers of your Backpacks',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        webhooks: Type.Array(WebhookView),
        count: Type.Integer(),
        next_cursor: NullableStringSchema,
      }),
      ...errorResponses,
    },
  },
}

const removeWebhook = {
  config: write,
  schema: {
    operationId: 'removeWebhook',
    summary: 'Remove a webhook and its pending deliveries',
    tags,
    params,
    response: {
      200: Type.Object({ id: Type.String(), removed: Type.Boolean() }),
      ...errorResponses,
    },
  },
}

const rotateSecret = {
  config: secretWriteConfig,
  schema: {
    operationId: 'rotateWebhookSecret',
    summary: 'Rotate the secret; the old one also signs for 24 hours',
    tags,
    params,
    response: { 200: WebhookSecretResponse, ...errorResponses },
  },
}

const enableWebhook = {
  config: write,
  schema: {
    operationId: 'enableWebhook',
    summary: 'Re-enable a disabled webhook',
    tags,
    params,
    response: { 200: WebhookView, ...errorResponses },
  },
}

/** Register, list, rotate, enable and remove webhooks. */
export const webhookRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, config, once, webhooks } = app.services
  const { store, checkUrl, wake } = webhooks
  const now = () => new Date(clock.now())

  app.post('/api/webhook/register', registerWebhook, async (request, reply) => {
    const { url, events = ['all'] } = request.body
    if (config.production && URL.canParse(url) && new URL(url).protocol !== 'https:')
      throw invalidInputError('/url', 'must be an https address')
    await checkUrl(url)
    const wanted = { agentId: request.agentId, url, events, at: now() }
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const twin = await store.twin(tx, wanted)
        if (twin !== null) throw webhookExistsError(twin)
        const made = await store.add(tx, wanted, LIMITS.webhooks)
        if (made === null)
          throw new ServiceError('limit_reached', { limit: LIMITS.webhooks, of: 'webhooks' })
        return { status: 200, body: presentSecret(made) }
      }),
    )
  })

  app.get('/api/webhook', listWebhooks, async ({ agentId, query }) => {
    const { rows, next_cursor } = await paginate(
      query,
      WEBHOOK_CURSOR_PATTERN,
      (limit, before) => store.listOf(agentId, limit, before),
      toWebhookCursor,
    )
    return { webhooks: rows.map(presentWebhook), count: rows.length, next_cursor }
  })

  app.delete('/api/webhook/:id', removeWebhook, async (request, reply) => {
    const { id } = request.params
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        if (!(await store.remove(tx, request.agentId, id))) throw webhookNotFoundError(id)
        return { status: 200, body: { id, removed: true } }
      }),
    )
  })

  app.post('/api/webhook/:id/rotate', rotateSecret, async (request, reply) => {
    const { id } = request.params
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const rotated = await store.rotate(tx, request.agentId, id, now())
        if (rotated === null) throw webhookNotFoundError(id)
        return { status: 200, body: presentSecret(rotated) }
      }),
    )
  })

  app.post('/api/webhook/:id/enable', enableWebhook, async (request, reply) => {
    const { id } = request.params
    const enabled = await sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const webhook = await store.enable(tx, request.agentId, id, now())
        if (webhook === null) throw webhookNotFoundError(id)
        return { status: 200, body: presentWebhook(webhook) }
      }),
    )
    wake()
    return enabled
  })
}

export const webhookNotFoundError = (id?: string) =>
  new ServiceError('webhook_not_found', id === undefined ? {} : { webhook_id: id })

const webhookExistsError = ({ id, state }: Webhook) => {
  const how = state === 'disabled' ? `enable it with POST /api/webhook/${id}/enable` : 'use it'
  const detail = `The webhook ${id} gets these events at this address already: ${how}. POST /api/webhook/${id}/rotate gives it a new secret.`
  return new ServiceError('webhook_exists', { webhook_id: id, state, detail })
}

const presentWebhook = (webhook: Webhook) => ({
  webhook_id: webhook.id,
  id: webhook.id,
  url: webhook.url,
  events: [...webhook.events],
  backpack_id: webhook.backpackId,
  state: webhook.state,
  disabled_reason: webhook.disabledReason,
  disabled_at: toIsoTimeOrNull(webhook.disabledAt),
  failures: webhook.failures,
  failing_since: toIsoTimeOrNull(webhook.failingSince),
  dropped: webhook.dropped,
  created_at: toIsoTime(webhook.createdAt),
})

const presentSecret = ({ webhook, secret }: WebhookWithSecret) => ({
  ...presentWebhook(webhook),
  secret,
})
