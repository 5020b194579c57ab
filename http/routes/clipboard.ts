import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { ClipboardEntry } from '../../persistence/clipboard.ts'
import { assertBytes } from '../body.ts'
import { answer, asked } from '../idempotency.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import { Body, failures, Instant, instant, maybeInstant, Nullable, ref } from '../schemas.ts'
import { config, demandActive, ownBackpack, params, Removed, tags } from './backpack-store.ts'

const LONGEST_TTL_SECONDS = 10 * 365 * 86_400

const Note = Type.Object(
  { key: Type.String(), value: Type.Unknown(), expires_at: Nullable(Instant), updated_at: Instant },
  { $id: 'ClipboardEntry' },
)
const NoteKey = Type.String({ minLength: 1, maxLength: 256, pattern: '^[^\\u0000]+$' })

const putNote = {
  config: { ...config, bound: 'acts' } as const,
  schema: {
    operationId: 'putNote',
    summary: 'Write an entry of the clipboard',
    tags,
    params,
    body: Body({
      key: NoteKey,
      value: Type.Unknown({
        description: `Any JSON of at most ${LIMITS.clipboardValueBytes} bytes.`,
      }),
      ttl_seconds: Type.Optional(
        Nullable(Type.Integer({ minimum: 1, maximum: LONGEST_TTL_SECONDS })),
      ),
    }),
    response: { 200: ref(Note), ...failures },
  },
}

const readNotes = {
  config: { ...config, bound: 'reads' } as const,
  schema: {
    operationId: 'readNotes',
    summary: 'One entry of the clipboard by its key, or all of them',
    tags,
    params,
    querystring: Type.Object({ ...Paging, key: Type.Optional(NoteKey) }),
    response: {
      200: Type.Object({
        entries: Type.Array(ref(Note)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

const removeNote = {
  config: { ...config, bound: 'acts' } as const,
  schema: {
    operationId: 'removeNote',
    summary: 'Remove an entry of the clipboard',
    tags,
    params,
    querystring: Type.Object({ key: NoteKey }),
    response: { 200: Removed, ...failures },
  },
}

/** The notes an agent leaves itself in a Backpack (decision 39). */
export const clipboardRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { clipboard, clock, once } = services
  app.addSchema(Note)

  app.post('/api/backpack/:id/clipboard', putNote, async (request, reply) => {
    const { key, value, ttl_seconds: ttl = null } = request.body
    assertBytes(JSON.stringify(value), LIMITS.clipboardValueBytes, '/value')
    await demandActive(services, request)
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        const now = clock.now()
        const expiresAt = ttl === null ? null : new Date(now + ttl * SECOND)
        const entry = { key, value, expiresAt, updatedAt: new Date(now) }
        const place = { agentId: request.agentId, backpackId: request.params.id }
        const kept = await clipboard.put(tx, place, entry, LIMITS.clipboardEntries)
        if (!kept) throw new ServiceError('limit_reached', { limit: LIMITS.clipboardEntries })
        return { status: 200, body: present(entry) }
      }),
    )
  })

  app.get('/api/backpack/:id/clipboard', readNotes, async (request) => {
    const { backpackId } = await ownBackpack(services, request)
    const { key } = request.query
    const now = new Date(clock.now())
    if (key !== undefined) {
      const entry = await clipboard.find(backpackId, key, now)
      if (entry === null) throw new ServiceError('entry_not_found', { key })
      return { entries: [present(entry)], count: 1, next_cursor: null }
    }
    const { rows, next_cursor } = await page(
      request.query,
      CURSOR.text,
      (limit, after) => clipboard.listOf(backpackId, now, limit, after),
      (entry) => entry.key,
    )
    return { entries: rows.map(present), count: rows.length, next_cursor }
  })

  app.delete('/api/backpack/:id/clipboard', removeNote, async (request, reply) => {
    const { backpackId } = await ownBackpack(services, request)
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        const removed = await clipboard.remove(tx, backpackId, request.query.key)
        if (!removed) throw new ServiceError('entry_not_found', { key: request.query.key })
        return { status: 200, body: { removed } }
      }),
    )
  })
}

const present = ({ key, value, expiresAt, updatedAt }: ClipboardEntry) => ({
  key,
  value,
  expires_at: maybeInstant(expiresAt),
  updated_at: instant(updatedAt),
})
