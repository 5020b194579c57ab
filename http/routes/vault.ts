import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { decayOf, strengthOf } from '../../core/decay.ts'
import { LIMITS } from '../../core/limits.ts'
import { SAID } from '../../core/said.ts'
import type { SharedMemory } from '../../persistence/vault-exchange.ts'
import type { StoredMemory } from '../../persistence/vault.ts'
import { frame, send } from '../call-request.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import type { Services } from '../services.ts'
import { failures, Instant, instant, maybeInstant, Nullable, ref, Uuid } from '../schemas.ts'

const tags = ['vault']
const Open = Type.Object({}, { additionalProperties: true })
const Count = Type.Integer({ minimum: 0 })
const Share = Type.Number({ minimum: 0, maximum: 1 })
const priced = { auth: 'key', scope: 'tools', rate: 'refuel', bound: 'pays' } as const
const read = { auth: 'key', scope: 'read', bound: 'reads' } as const

/** An operation that is a tool at an address of its own. */
const operation = (operationId: string, summary: string, description: string) => ({
  config: priced,
  schema: {
    operationId,
    summary,
    description,
    tags,
    body: Type.Optional(Nullable(Open)),
    response: { 200: Open, ...failures },
  },
})

const writeMemory = operation(
  'writeVault',
  `Keep a private memory; the first ${LIMITS.vaultFreeWrites} are free, then 0.01 USDC`,
  'Its fields are those of the tool vault_write: content, type, tags, importance, immortal, supersedes, keep_contradicted.',
)
const compress = operation(
  'compressVault',
  `The ${LIMITS.vaultCompress} oldest memories as at most ${LIMITS.vaultSummaries} summaries, for 0.05 USDC`,
  'The sources are archived in the same commit. Refunded when there are fewer than five, and on any failure.',
)
const dream = operation(
  'dreamVault',
  `Up to ${LIMITS.vaultDream} memories looked at as one, for 0.05 USDC: three to seven insights`,
  'Nothing is charged where nothing is new since an earlier dream (`earlier_dream`). Refunded when there are fewer than three memories, and on any failure.',
)
const share = operation(
  'shareMemory',
  'Give another agent a copy of a memory, for 0.01 USDC',
  'Fields: entry_id, to_agent_id, memo. The copy is permanent: later changes of the memory do not reach it.',
)

const queryVault = {
  config: { auth: 'key', scope: 'tools', rate: 'refuel', bound: 'pays' } as const,
  schema: {
    operationId: 'queryVault',
    summary: 'Search your own memories; free',
    tags,
    querystring: Type.Object({
      q: Type.String({ minLength: 1, maxLength: 500, pattern: SAID }),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
      type: Type.Optional(Type.String({ maxLength: 16 })),
      tag: Type.Optional(Type.String({ minLength: 1, maxLength: 40, pattern: SAID })),
    }),
    response: { 200: Open, ...failures },
  },
}

const Decay = Type.Object({}, { additionalProperties: true, description: 'strength and formula' })

const vaultStats = {
  config: read,
  schema: {
    operationId: 'vaultStats',
    summary: 'Hit rate, confidence and the memories that are recalled most',
    tags,
    response: {
      200: Type.Object({
        memories: Type.Object({
          live: Count,
          compressed: Count,
          superseded: Count,
          expired: Count,
        }),
        queries: Count,
        hits: Count,
        hit_rate: Nullable(Share),
        window_days: Count,
        confidence: Type.Object({
          mean_similarity: Nullable(Share),
          by_type: Type.Array(
            Type.Object({
              type: Type.String(),
              memories: Count,
              mean_importance: Share,
              strength_at_mean_age: Share,
            }),
          ),
        }),
        top_memories: Type.Array(
          Type.Object({
            id: Uuid,
            content: Type.String(),
            type: Type.String(),
            importance: Share,
            recalls: Count,
            decay: Decay,
          }),
        ),
        knowledge_gaps: Type.Array(Type.Object({ query: Type.String(), times_asked: Count })),
      }),
      ...failures,
    },
  },
}

const exportVault = {
  config: read,
  schema: {
    operationId: 'exportVault',
    summary: 'All your memories as portable JSON; free',
    description: `At most ${LIMITS.vaultExport} an answer; \`next_cursor\` leads on.`,
    tags,
    querystring: Type.Object({ cursor: Paging.cursor }),
    response: {
      200: Type.Object({
        format: Type.String(),
        agent_id: Uuid,
        exported_at: Instant,
        count: Count,
        memories: Type.Array(Open),
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

const Received = Type.Object(
  {
    share_id: Uuid,
    entry_id: Uuid,
    from_agent_id: Uuid,
    content: Type.String(),
    type: Type.String(),
    tags: Type.Array(Type.String()),
    importance: Share,
    memo: Nullable(Type.String()),
    remembered_at: Instant,
    shared_at: Instant,
  },
  { $id: 'ReceivedMemory' },
)

const receivedMemories = {
  config: read,
  schema: {
    operationId: 'receivedMemories',
    summary: 'What others have shared with you, the latest first',
    tags,
    querystring: Type.Object(Paging),
    response: {
      200: Type.Object({
        memories: Type.Array(ref(Received)),
        count: Count,
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

/** The vault over plain HTTP. What costs goes the way of every call. */
export const vaultRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls, clock, vault } = app.services
  app.addSchema(Received)

  const call = (tool: string) => async (request: FastifyRequest, reply: FastifyReply) => {
    const body = { ...(request.body as object | null) }
    return send(reply, await calls.refuel({ ...frame(request, reply), tool, body }))
  }

  app.post('/api/vault/write', writeMemory, call('vault_write'))
  app.post('/api/vault/compress', compress, call('vault_compress'))
  app.post('/api/vault/dream', dream, call('vault_dream'))
  app.post('/api/vault/share', share, call('vault_share'))

  app.get('/api/vault/query', queryVault, async (request, reply) => {
    const { q, ...rest } = request.query
    const body = { ...rest, query: q }
    return send(reply, await calls.refuel({ ...frame(request, reply), tool: 'vault_query', body }))
  })

  app.get('/api/vault/stats', vaultStats, async ({ agentId }) => {
    return statsView(await vault.stats(agentId, clock.now()))
  })

  app.get('/api/vault/export', exportVault, async ({ agentId, query }) => {
    const now = clock.now()
    const { rows, next_cursor } = await page(
      { ...query, limit: LIMITS.vaultExport },
      CURSOR.uuid,
      (limit, after) => vault.all(agentId, limit, after),
      ({ id }) => id,
    )
    return {
      format: 'gas-vault/v1',
      agent_id: agentId,
      exported_at: instant(new Date(now)),
      count: rows.length,
      memories: rows.map((memory) => portable(memory, now)),
      next_cursor,
    }
  })

  app.get('/api/vault/received', receivedMemories, async ({ agentId, query }) => {
    const { rows, next_cursor } = await page(
      query,
      CURSOR.uuid,
      (limit, before) => vault.received(agentId, limit, before),
      ({ id }) => id,
    )
    return { memories: rows.map(received), count: rows.length, next_cursor }
  })
}

type Stats = Awaited<ReturnType<Services['vault']['stats']>>

function statsView({ counts, queries, types, top, misses }: Stats) {
  const { asked, hits, similarity } = queries
  return {
    memories: counts,
    queries: asked,
    hits,
    hit_rate: asked === 0 ? null : round(hits / asked),
    window_days: LIMITS.vaultQueryDays,
    confidence: {
      mean_similarity: similarity === null ? null : round(similarity),
      by_type: types.map(({ type, count, importance, age }) => ({
        type,
        memories: count,
        mean_importance: round(importance),
        strength_at_mean_age: round(strengthOf({ type, immortal: false, at: 0 }, age * 1_000)),
      })),
    },
    top_memories: top.map(({ id, content, type, importance, recalls, decay }) => ({
      id,
      content,
      type,
      importance,
      recalls,
      decay: { ...decay },
    })),
    knowledge_gaps: misses.map(({ query, times }) => ({ query, times_asked: times })),
  }
}

function portable(memory: StoredMemory, now: number) {
  const decay = decayOf(memory, now)
  const { expires_at: end } = decay
  const isOver = end !== null && Date.parse(end) <= now
  return {
    id: memory.id,
    content: memory.content,
    type: memory.type,
    tags: memory.tags,
    importance: memory.importance,
    immortal: memory.immortal,
    namespace: memory.namespace,
    origin: memory.origin,
    created_at: instant(new Date(memory.at)),
    status: memory.archivedAs ?? (isOver ? 'expired' : 'live'),
    archived_at: maybeInstant(memory.archivedAt),
    archived_by: memory.archivedBy,
    decay,
  }
}

const received = (one: SharedMemory) => ({
  share_id: one.id,
  entry_id: one.memoryId,
  from_agent_id: one.fromAgent,
  content: one.content,
  type: one.type,
  tags: [...one.tags],
  importance: one.importance,
  memo: one.memo,
  remembered_at: instant(one.rememberedAt),
  shared_at: instant(one.at),
})

const round = (value: number): number => Math.round(value * 1e4) / 1e4
