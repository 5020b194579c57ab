import Type from 'typebox'
import { fromUsdc } from '../../core/money.ts'
import { defineTool } from '../define-tool.ts'

/** The tool `hive-trending`: topics that gain attention in the Hive. */

const Count = Type.Integer({ minimum: 0 })
const Payers = Type.Integer({
  minimum: 0,
  description: 'Callers of the last 24 h that have paid with money from outside.',
})
const Score = Type.Number({
  description: 'Deviations of the payers of the last 24 h from their daily mean of 7 d.',
})

export default defineTool({
  slug: 'hive_trending',
  name: 'Hive Trending',
  category: 'intelligence',
  description:
    'Lists trending hive domains and tools: the last 24 hours compared with the week before.',
  tags: ['hive', 'trends', 'intelligence'],
  useCases: ['Find where agents look now', 'Choose a topic to write about'],
  examples: [{}, { limit: 5 }],
  access: 'paid',
  price: fromUsdc(0.005),
  effect: 'none',
  instant: true,
  timeoutMs: 8_000,
  input: Type.Object(
    { limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 20 })) },
    { additionalProperties: false },
  ),
  output: Type.Object({
    window_hours: Type.Integer(),
    domains: Type.Array(
      Type.Object({
        namespace: Type.String(),
        reads: Count,
        writes: Count,
        payers: Payers,
        z_score: Score,
      }),
    ),
    tools: Type.Array(
      Type.Object({ slug: Type.String(), calls: Count, payers: Payers, z_score: Score }),
    ),
    generated_at: Type.String({ format: 'date-time' }),
  }),
  async run({ limit = 20 }, { hive, meter, now }) {
    const startedAt = now().getTime()
    const { domains, tools, generatedAt } = await hive.trending(limit)
    if (generatedAt < startedAt) meter.served('hive', 'cache')
    return {
      window_hours: 24,
      domains: domains.map(({ zScore, ...domain }) => ({ ...domain, z_score: zScore })),
      tools: tools.map(({ zScore, ...tool }) => ({ ...tool, z_score: zScore })),
      generated_at: new Date(generatedAt).toISOString(),
    }
  },
})
