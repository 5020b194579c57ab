import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { fromUsdc } from '../../core/money.ts'
import { LETTER_OR_DIGIT_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { llmOptionalToolAvailability } from '../tool-availability.ts'
import { defineTool } from '../define-tool.ts'
import {
  toCitedAnswer,
  extractRelevantStatementsFromSources,
  writeCitedStatementsWithLlm,
} from './research/cited-answer.ts'
import { gatherWebSources } from './research/gather-web-sources.ts'

/** The tool `deep-search`: answers a question with cited web sources. */

export default defineTool({
  slug: 'deep_search',
  name: 'Deep Search',
  category: 'web',
  description:
    'Runs three searches at once, reads up to six pages, and answers with statements that each cite the source they were checked against.',
  tags: ['search', 'research', 'citations'],
  useCases: ['Answer a question with sources', 'Survey a topic', 'Check what is known'],
  examples: [{ query: 'How does account abstraction pay gas fees?' }],
  access: 'paid',
  keyRequired: true,
  price: fromUsdc(0.05),
  effect: 'none',
  timeoutMs: 80_000,
  input: Type.Object(
    { query: Type.String({ minLength: 3, maxLength: 400, pattern: LETTER_OR_DIGIT_PATTERN }) },
    { additionalProperties: false },
  ),
  output: Type.Object({
    query: Type.String(),
    answer: Type.String({ description: 'Each statement ends with its citations: [1].' }),
    citations: Type.Array(
      Type.Object({
        n: Type.Integer({ minimum: 1 }),
        title: Type.String(),
        url: Type.String(),
        source: Type.String({ description: 'The provider that found it.' }),
        kind: Type.Enum(['page', 'snippet', 'hive'], {
          description: '`snippet`: the page itself could not be read.',
        }),
        supports: Type.Array(Type.String(), { description: 'The statements that cite it.' }),
      }),
    ),
    method: Type.Enum(['extractive', 'llm'], {
      description: '`extractive`: the statements are sentences of the sources, word for word.',
    }),
    statements_dropped: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: "A model's statements that its sources do not support.",
      }),
    ),
    sources_considered: Type.Integer({ minimum: 1 }),
    searches: Type.Array(Type.Object({ kind: Type.String(), count: Type.Integer({ minimum: 0 }) })),
    pages_unread: Type.Array(Type.Object({ url: Type.String(), code: Type.String() })),
    degraded: Type.Optional(
      Type.Boolean({ description: 'No web engine answered: the answer is from the Hive.' }),
    ),
    sources_failed: Type.Optional(
      Type.Array(Type.Object({ source: Type.String(), code: Type.String() }), {
        description: 'Engines that failed.',
      }),
    ),
  }),
  availability({ search, llm }) {
    const answers = llmOptionalToolAvailability('extractive')({ llm })
    return { ...answers, providers: [...search.providers, ...answers.providers] }
  },
  async run({ query }, context) {
    const { sources, searches, unread, served, failed } = await gatherWebSources(query, context)
    const missed = failed.length > 0 ? { sources_failed: [...failed] } : {}
    const statements =
      sources.length === 0
        ? []
        : await extractRelevantStatementsFromSources(query, sources, context.text)
    // Sources without a relevant statement are dropped.
    if (statements.length === 0) {
      if (served !== null) throw new ServiceError('no_evidence', { query, searches, ...missed })
      throw new ServiceError('upstream_error', { reason: 'no_search_answers', ...missed })
    }
    if (served !== null) context.meter.served(served.source, served.mode)
    else context.meter.waive('no source of the web answered')
    // No model is called for an answer that is not charged.
    const model =
      served === null ? null : await writeCitedStatementsWithLlm(query, sources, context)
    return {
      query,
      ...toCitedAnswer(model?.statements ?? statements, sources),
      method: model === null ? ('extractive' as const) : ('llm' as const),
      ...(model !== null && model.dropped > 0 ? { statements_dropped: model.dropped } : {}),
      sources_considered: sources.length,
      searches: [...searches],
      pages_unread: [...unread],
      ...(served === null ? { degraded: true } : {}),
      ...missed,
    }
  },
})
