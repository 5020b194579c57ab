import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { describeMemoryDecay, memoryStrength } from '../../../domain/memory-decay.ts'
import { LIMITS } from '../../../core/limits.ts'
import {
  LETTER_OR_DIGIT_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../../core/validation/request-schema-regex-patterns.ts'
import type { SharedVaultMemory } from '../../../persistence/vault/vault-share-promotion-and-pack-store.ts'
import type { VaultMemoryRecord } from '../../../persistence/vault/vault-store.ts'
import { toBaseCallRequest, sendCallReply } from '../../http-tool-call-request.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'
import {
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  schemaRef,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for the vault, an agent's private memory. */

const tags = ['vault']
const AnyObject = Type.Object({}, { additionalProperties: true })
const Count = Type.Integer({ minimum: 0 })
const FractionSchema = Type.Number({ minimum: 0, maximum: 1 })
const pricedRouteConfig = { auth: 'key', scope: 'tools', rate: 'refuel', bound: 'pays' } as const
const readRouteConfig = { auth: 'key', scope: 'read', bound: 'reads' } as const

/** Returns the schema of a route that runs one tool at its own address. */
const toolRoute = (operationId: string, summary: string, description: string) => ({
  config: pricedRouteConfig,
  schema: {
    operationId,
    summary,
    description,
    tags,
    body: Type.Optional(Nullable(AnyObject)),
    response: { 200: AnyObject, ...errorResponses },
  },
})

const writeMemory = toolRoute(
  'writeVault',
  `Store a private memory; the first ${LIMITS.vaultFreeWrites} are free, then 0.01 USDC`,
  'Its fields are those of the tool vault_write: content, type, tags, importance, immortal, supersedes, keep_contradicted.',
)
const compressVault = toolRoute(
  'compressVault',
  `Compress the ${LIMITS.vaultCompress} oldest memories into at most ${LIMITS.vaultSummaries} summaries, for 0.05 USDC`,
  'The sources are archived in the same commit. Refunded when there are fewer than five, and on any failure.',
)
const dreamVault = toolRoute(
  'dreamVault',
  `Derive three to seven insights from up to ${LIMITS.vaultDream} memories, for 0.05 USDC`,
  'Nothing is charged where nothing is new since an earlier dream (`earlier_dream`). Refunded when there are fewer than three memories, and on any failure.',
)
const shareMemory = toolRoute(
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
      q: Type.String({ minLength: 1, maxLength: 500, pattern: LETTER_OR_DIGIT_PATTERN }),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
      type: Type.Optional(Type.String({ maxLength: 16 })),
      tag: Type.Optional(Type.String({ minLength: 1, maxLength: 40, pattern: NOT_BLANK_PATTERN })),
    }),
    response: { 200: AnyObject, ...errorResponses },
  },
}

const Decay = Type.Object({}, { additionalProperties: true, description: 'strength and formula' })

const vaultStats = {
  config: readRouteConfig,
  schema: {
    operationId: 'vaultStats',
    summary: 'Hit rate, confidence and most recalled memories',
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
        hit_rate: Nullable(FractionSchema),
        window_days: Count,
        confidence: Type.Object({
          mean_similarity: Nullable(FractionSchema),
          by_type: Type.Array(
            Type.Object({
              type: Type.String(),
              memories: Count,
              mean_importance: FractionSchema,
              strength_at_mean_age: FractionSchema,
            }),
          ),
        }),
        top_memories: Type.Array(
          Type.Object({
            id: UuidSchema,
            content: Type.String(),
            type: Type.String(),
            importance: FractionSchema,
            recalls: Count,
            decay: Decay,
          }),
        ),
        knowledge_gaps: Type.Array(Type.Object({ query: Type.String(), times_asked: Count })),
      }),
      ...errorResponses,
    },
  },
}

const exportVault = {
  config: readRouteConfig,
  schema: {
    operationId: 'exportVault',
    summary: 'All your memories as portable JSON; free',
    description: `At most ${LIMITS.vaultExport} per response; \`next_cursor\` continues.`,
    tags,
    querystring: Type.Object({ cursor: PaginationQuery.cursor }),
    response: {
      200: Type.Object({
        format: Type.String(),
        agent_id: UuidSchema,
        exported_at: DateTimeSchema,
        count: Count,
        memories: Type.Array(AnyObject),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const ReceivedMemorySchema = Type.Object(
  {
    share_id: UuidSchema,
    entry_id: UuidSchema,
    from_agent_id: UuidSchema,
    content: Type.String(),
    type: Type.String(),
    tags: Type.Array(Type.String()),
    importance: FractionSchema,
    memo: Nullable(Type.String()),
    remembered_at: DateTimeSchema,
    shared_at: DateTimeSchema,
  },
  { $id: 'ReceivedMemory' },
)

const receivedMemories = {
  config: readRouteConfig,
  schema: {
    operationId: 'receivedMemories',
    summary: 'Memories shared with you, latest first',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        memories: Type.Array(schemaRef(ReceivedMemorySchema)),
        count: Count,
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

/** The vault over REST. Paid operations run as ordinary calls. */
export const memoryVaultRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls, clock, vault } = app.services
  app.addSchema(ReceivedMemorySchema)

  const call = (tool: string) => async (request: FastifyRequest, reply: FastifyReply) => {
    const body = { ...(request.body as object | null) }
    return sendCallReply(
      reply,
      await calls.refuel({ ...toBaseCallRequest(request, reply), tool, body }),
    )
  }

  app.post('/api/vault/write', writeMemory, call('vault_write'))
  app.post('/api/vault/compress', compressVault, call('vault_compress'))
  app.post('/api/vault/dream', dreamVault, call('vault_dream'))
  app.post('/api/vault/share', shareMemory, call('vault_share'))

  app.get('/api/vault/query', queryVault, async (request, reply) => {
    const { q, ...rest } = request.query
    const body = { ...rest, query: q }
    return sendCallReply(
      reply,
      await calls.refuel({ ...toBaseCallRequest(request, reply), tool: 'vault_query', body }),
    )
  })

  app.get('/api/vault/stats', vaultStats, async ({ agentId }) => {
    return presentStats(await vault.stats(agentId, clock.now()))
  })

  app.get('/api/vault/export', exportVault, async ({ agentId, query }) => {
    const now = clock.now()
    const { rows, next_cursor } = await paginate(
      { ...query, limit: LIMITS.vaultExport },
      CURSOR_PATTERNS.uuid,
      (limit, after) => vault.all(agentId, limit, after),
      ({ id }) => id,
    )
    return {
      format: 'gas-vault/v1',
      agent_id: agentId,
      exported_at: toIsoTime(new Date(now)),
      count: rows.length,
      memories: rows.map((memory) => presentExportedMemory(memory, now)),
      next_cursor,
    }
  })

  app.get('/api/vault/received', receivedMemories, async ({ agentId, query }) => {
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => vault.received(agentId, limit, before),
      ({ id }) => id,
    )
    return { memories: rows.map(presentReceivedMemory), count: rows.length, next_cursor }
  })
}

type VaultStats = Awaited<ReturnType<HttpServices['vault']['stats']>>

function presentStats({ counts, queries, types, top, misses }: VaultStats) {
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
        strength_at_mean_age: round(memoryStrength({ type, immortal: false, at: 0 }, age * 1_000)),
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

function presentExportedMemory(memory: VaultMemoryRecord, now: number) {
  const decay = describeMemoryDecay(memory, now)
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
    created_at: toIsoTime(new Date(memory.at)),
    status: memory.archivedAs ?? (isOver ? 'expired' : 'live'),
    archived_at: toIsoTimeOrNull(memory.archivedAt),
    archived_by: memory.archivedBy,
    decay,
  }
}

const presentReceivedMemory = (one: SharedVaultMemory) => ({
  share_id: one.id,
  entry_id: one.memoryId,
  from_agent_id: one.fromAgent,
  content: one.content,
  type: one.type,
  tags: [...one.tags],
  importance: one.importance,
  memo: one.memo,
  remembered_at: toIsoTime(one.rememberedAt),
  shared_at: toIsoTime(one.at),
})

const round = (value: number): number => Math.round(value * 1e4) / 1e4
