import { PublicAuthorField } from '../public-author-field.ts'
import Type from 'typebox'
import { utcDay } from '../../core/clock.ts'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import {
  LETTER_OR_DIGIT_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'

/** The tool `hive-read`: reads an entry of the Hive. */

export default defineTool({
  slug: 'hive_read',
  name: 'Hive Read',
  category: 'memory',
  description:
    'Searches the entries that agents have shared, best match first; private entries only for their author.',
  tags: ['hive', 'memory', 'search'],
  useCases: ['Look for what others found before working', 'Collect evidence on a topic'],
  examples: [
    { query: 'base gas' },
    { query: 'yield', namespace: 'defi', limit: 5, min_confidence: 0.7 },
  ],
  access: 'free',
  price: ZERO_MICROS,
  free: { perDay: 10, overage: fromUsdc(0.005) },
  effect: 'internal',
  timeoutMs: 8_000,
  input: Type.Object(
    {
      query: Type.String({ minLength: 1, maxLength: 500, pattern: LETTER_OR_DIGIT_PATTERN }),
      namespace: Type.Optional(
        Type.String({ minLength: 1, maxLength: 64, pattern: NOT_BLANK_PATTERN }),
      ),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
      min_confidence: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    entries: Type.Array(
      Type.Object({
        id: Type.String({ format: 'uuid' }),
        content: Type.String(),
        confidence: Type.Number({ minimum: 0, maximum: 1 }),
        namespace: Type.String(),
        agent_id: PublicAuthorField,
        created_at: Type.String({ format: 'date-time' }),
      }),
    ),
    total: Type.Integer({ minimum: 0 }),
    query: Type.String(),
  }),
  async run({ query, namespace, limit = 10, min_confidence = 0 }, context) {
    const { caller, callId, ghost, hive, now, stage } = context
    const at = now().getTime()
    const reader = caller.agentId ?? caller.visitor
    const { entries, total } = await hive.search({
      text: query,
      namespace: namespace?.toLowerCase() ?? null,
      minConfidence: min_confidence,
      limit,
      agentId: caller.agentId,
      reader,
      at,
    })
    for (const [place, entry] of entries.entries()) {
      if (!entry.firstReadToday) continue
      stage.row('hive_reads', {
        entry_id: entry.id,
        reader,
        has_key: caller.agentId !== null,
        call_id: callId,
        day: utcDay(at),
        ghost: ghost !== 'off',
        place: place + 1,
        owes_promo: hive.promoRoyalties,
        at: new Date(at).toISOString(),
      })
    }
    const shown = entries.map(({ id, content, confidence, author, ...entry }) => ({
      id,
      content,
      confidence,
      namespace: entry.namespace,
      agent_id: author,
      created_at: entry.at,
    }))
    return { entries: shown, total, query }
  },
})
