import Type from 'typebox'
import { describeMemoryDecay } from '../../domain/memory-decay.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { ZERO_MICROS } from '../../core/money.ts'
import {
  LETTER_OR_DIGIT_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'
import {
  MemoryDecayStateSchema,
  MemoryTypeField,
  MemorySchema,
  vaultToolCallerAgentId,
  toMemoryView,
} from './vault/memory-schemas-and-staging.ts'

/** The tool `vault-query`: searches the caller's memories. */

export default defineTool({
  slug: 'vault_query',
  name: 'Vault Query',
  category: 'memory',
  description:
    'Searches your own memories, ranked by similarity, importance and remaining strength. Queries without results are recorded as gaps.',
  tags: ['vault', 'memory', 'search'],
  useCases: ['Recall what was learned', 'Look before asking the web', 'Find your own skills'],
  examples: [{ query: 'rate limits of the staging API', limit: 5 }],
  access: 'free_with_key',
  keyRequired: true,
  price: ZERO_MICROS,
  effect: 'internal',
  timeoutMs: 8_000,
  normalise(body) {
    const { q, ...rest } = body
    return q === undefined || 'query' in rest ? body : { ...rest, query: q }
  },
  input: Type.Object(
    {
      query: Type.String({
        minLength: 1,
        maxLength: 500,
        pattern: LETTER_OR_DIGIT_PATTERN,
        description: '`q` is an alias.',
      }),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
      type: Type.Optional(MemoryTypeField),
      tag: Type.Optional(Type.String({ minLength: 1, maxLength: 40, pattern: NOT_BLANK_PATTERN })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    memories: Type.Array(
      Type.Object({
        ...MemorySchema.properties,
        similarity: Type.Number({ minimum: 0, maximum: 1 }),
        score: Type.Number({ minimum: 0, maximum: 1 }),
        decay: MemoryDecayStateSchema,
        source: Type.Union([Type.String(), Type.Null()], {
          description: 'Reference to verify an entry of a pack.',
        }),
      }),
    ),
    total: Type.Integer({ minimum: 0 }),
    query: Type.String(),
    method: Type.Enum(['fulltext+lexical']),
    ranking: Type.String(),
  }),
  async run({ query, limit = 10, type, tag }, context) {
    const { callId, now, stage, text, vault } = context
    const at = now().getTime()
    const agentId = vaultToolCallerAgentId(context)
    const found = await vault.recall({
      agentId,
      text: query,
      vector: await text.vector(query),
      type: type ?? null,
      tag: tag ?? null,
      limit,
      at,
    })
    stage.row('vault_queries', {
      id: newUuidV7(at),
      agent_id: agentId,
      query,
      memory_ids: found.map(({ memory }) => memory.id),
      similarity: found[0]?.similarity ?? 0,
      call_id: callId,
      at: new Date(at).toISOString(),
    })
    return {
      memories: found.map(({ memory, similarity, score }) => ({
        ...toMemoryView(memory),
        similarity,
        score,
        decay: describeMemoryDecay(memory, at),
        source: typeof memory.origin['source'] === 'string' ? memory.origin['source'] : null,
      })),
      total: found.length,
      query,
      method: 'fulltext+lexical' as const,
      ranking: 'score = similarity * (0.6 + 0.4 * importance) * (0.5 + 0.5 * decay.strength)',
    }
  },
})
