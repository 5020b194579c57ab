import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { SECOND } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { BackpackClipboardEntry } from '../../../persistence/agents/backpack-clipboard-store.ts'
import { assertMaxBytes } from '../../plugins/body-parser.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  StrictBody,
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  schemaRef,
} from '../../schemas/shared-schemas.ts'
import {
  backpackRouteConfig,
  assertPathBackpackActive,
  requireOwnBackpackOfPath,
  BackpackPathParams,
  RemovalReplySchema,
  backpackRouteTags,
} from './shared-by-backpack-subresource-routes.ts'

/** Routes for the clipboard of a Backpack (decision 39). */

const MAX_TTL_SECONDS = 10 * 365 * 86_400

const ClipboardEntrySchema = Type.Object(
  {
    key: Type.String(),
    value: Type.Unknown(),
    expires_at: Nullable(DateTimeSchema),
    updated_at: DateTimeSchema,
  },
  { $id: 'ClipboardEntry' },
)
const ClipboardKeySchema = Type.String({ minLength: 1, maxLength: 256, pattern: '^[^\\u0000]+$' })

const putEntry = {
  config: { ...backpackRouteConfig, bound: 'acts', capped: true, keeps: 0 } as const,
  schema: {
    operationId: 'putNote',
    summary: 'Write an entry of the clipboard',
    tags: backpackRouteTags,
    params: BackpackPathParams,
    body: StrictBody({
      key: ClipboardKeySchema,
      value: Type.Unknown({
        description: `Any JSON of at most ${LIMITS.clipboardValueBytes} bytes.`,
      }),
      ttl_seconds: Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: MAX_TTL_SECONDS }))),
    }),
    response: { 200: schemaRef(ClipboardEntrySchema), ...errorResponses },
  },
}

const readEntries = {
  config: { ...backpackRouteConfig, bound: 'reads' } as const,
  schema: {
    operationId: 'readNotes',
    summary: 'One entry of the clipboard by its key, or all of them',
    tags: backpackRouteTags,
    params: BackpackPathParams,
    querystring: Type.Object({ ...PaginationQuery, key: Type.Optional(ClipboardKeySchema) }),
    response: {
      200: Type.Object({
        entries: Type.Array(schemaRef(ClipboardEntrySchema)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const removeEntry = {
  config: { ...backpackRouteConfig, bound: 'acts', capped: true } as const,
  schema: {
    operationId: 'removeNote',
    summary: 'Remove an entry of the clipboard',
    tags: backpackRouteTags,
    params: BackpackPathParams,
    querystring: Type.Object({ key: ClipboardKeySchema }),
    response: { 200: RemovalReplySchema, ...errorResponses },
  },
}

/** Notes that an agent stores in a Backpack for itself. */
export const clipboardRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { clipboard, clock, once } = services
  app.addSchema(ClipboardEntrySchema)

  app.post('/api/backpack/:id/clipboard', putEntry, async (request, reply) => {
    const { key, value, ttl_seconds: ttl = null } = request.body
    assertMaxBytes(JSON.stringify(value), LIMITS.clipboardValueBytes, '/value')
    await assertPathBackpackActive(services, request)
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const now = clock.now()
        const expiresAt = ttl === null ? null : new Date(now + ttl * SECOND)
        const entry = { key, value, expiresAt, updatedAt: new Date(now) }
        const place = { agentId: request.agentId, backpackId: request.params.id }
        const kept = await clipboard.put(tx, place, entry, LIMITS.clipboardEntries)
        if (!kept) throw new ServiceError('limit_reached', { limit: LIMITS.clipboardEntries })
        return { status: 200, body: presentEntry(entry) }
      }),
    )
  })

  app.get('/api/backpack/:id/clipboard', readEntries, async (request) => {
    const { backpackId } = await requireOwnBackpackOfPath(services, request)
    const { key } = request.query
    const now = new Date(clock.now())
    if (key !== undefined) {
      const entry = await clipboard.find(backpackId, key, now)
      if (entry === null) throw new ServiceError('entry_not_found', { key })
      return { entries: [presentEntry(entry)], count: 1, next_cursor: null }
    }
    const { rows, next_cursor } = await paginate(
      request.query,
      CURSOR_PATTERNS.text,
      (limit, after) => clipboard.listOf(backpackId, now, limit, after),
      (entry) => entry.key,
    )
    return { entries: rows.map(presentEntry), count: rows.length, next_cursor }
  })

  app.delete('/api/backpack/:id/clipboard', removeEntry, async (request, reply) => {
    const { backpackId } = await requireOwnBackpackOfPath(services, request)
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const removed = await clipboard.remove(tx, backpackId, request.query.key)
        if (!removed) throw new ServiceError('entry_not_found', { key: request.query.key })
        return { status: 200, body: { removed } }
      }),
    )
  })
}

const presentEntry = ({ key, value, expiresAt, updatedAt }: BackpackClipboardEntry) => ({
  key,
  value,
  expires_at: toIsoTimeOrNull(expiresAt),
  updated_at: toIsoTime(updatedAt),
})
