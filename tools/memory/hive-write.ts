import Type from 'typebox'
import { invalidInputError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { fromUsdc, toUsdc, ZERO_MICROS } from '../../core/money.ts'
import { LIMITS } from '../../core/limits.ts'
import { HIVE_READ_ROYALTY } from '../../domain/pricing.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'
import { reserveHiveText } from './hive/reserve-hive-text.ts'

/** The tool `hive-write`: publishes an entry in the Hive. */

const MIN_CONTENT_CHARS = 50
const DEFAULT_NAMESPACE = 'general'

export default defineTool({
  slug: 'hive_write',
  name: 'Hive Write',
  category: 'memory',
  description:
    'Stores a finding in the shared memory; the author earns a royalty when others read it.',
  tags: ['hive', 'memory', 'knowledge'],
  useCases: ['Share what a task has found', 'Earn from knowledge', 'Keep a private note'],
  examples: [
    {
      content:
        'Base gas has stayed below 0.01 gwei on weekends through November; batch transfers on Sundays.',
      namespace: 'base',
      tags: ['gas', 'timing'],
      confidence: 0.9,
    },
  ],
  access: 'free_with_key',
  keyRequired: true,
  price: ZERO_MICROS,
  keyless: fromUsdc(0.01),
  quota: { callsPerDay: LIMITS.hiveWritesPerDay },
  effect: 'internal',
  actsOnOthers: true,
  timeoutMs: 5_000,
  input: Type.Object(
    {
      content: Type.String({
        minLength: MIN_CONTENT_CHARS,
        maxLength: 2000,
        pattern: NOT_BLANK_PATTERN,
      }),
      namespace: Type.Optional(
        Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9:_.-]{0,63}$', default: DEFAULT_NAMESPACE }),
      ),
      tags: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 40, pattern: NOT_BLANK_PATTERN }), {
          maxItems: 20,
        }),
      ),
      confidence: Type.Optional(Type.Number({ minimum: 0, maximum: 1, default: 0.8 })),
      is_public: Type.Optional(Type.Boolean({ default: true })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    id: Type.String({ format: 'uuid' }),
    namespace: Type.String(),
    royalty_per_read_usdc: Type.Number(),
    status: Type.Enum(['stored', 'duplicate'], {
      description: 'You have an entry with the same text; it is returned and nothing is written.',
    }),
    created_at: Type.String({ format: 'date-time' }),
  }),
  preflight({ content }) {
    if (content.trim().length >= MIN_CONTENT_CHARS) return
    throw invalidInputError(
      '/content',
      `must have at least ${MIN_CONTENT_CHARS} characters between its blank ends`,
    )
  },
  async run(input, context) {
    const { caller, callId, ghost, meter, now, stage } = context
    const at = now().getTime()
    const createdAt = new Date(at).toISOString()
    const text = { isPublic: input.is_public ?? true, content: input.content }
    const claim = await reserveHiveText(context, text, newUuidV7(at))
    if (claim.state === 'written') {
      meter.waive('an equal text of yours is there already')
      return {
        id: claim.id,
        namespace: claim.namespace,
        royalty_per_read_usdc: toUsdc(HIVE_READ_ROYALTY),
        status: 'duplicate' as const,
        created_at: claim.at.toISOString(),
      }
    }
    const { id } = claim
    const namespace = (input.namespace ?? DEFAULT_NAMESPACE).toLowerCase()
    stage.row('hive_entries', {
      id,
      agent_id: caller.agentId,
      content: input.content,
      namespace,
      tags: input.tags ?? [],
      confidence: input.confidence ?? 0.8,
      is_public: input.is_public ?? true,
      call_id: callId,
      at: createdAt,
      ghost: ghost !== 'off',
    })
    return {
      id,
      namespace,
      royalty_per_read_usdc: toUsdc(HIVE_READ_ROYALTY),
      status: 'stored' as const,
      created_at: createdAt,
    }
  },
})
