import Type from 'typebox'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool, callerIdOf } from '../define-tool.ts'

/** The tool `web-search`: searches the web. */

const DEFAULT_MAX_RESULTS = 5

export default defineTool({
  slug: 'web_search',
  name: 'Web Search',
  category: 'web',
  description:
    'Searches the web with the first source that answers; if none does, the public Hive is searched, and the answer is marked as degraded and free.',
  tags: ['search', 'web', 'research'],
  useCases: ['Find sources for a question', 'Look up what is new', 'Find the page of a project'],
  examples: [{ query: 'account abstraction' }, { query: 'base gas fees', max_results: 3 }],
  access: 'free',
  price: ZERO_MICROS,
  free: { perDay: 10, overage: fromUsdc(0.01) },
  effect: 'none',
  timeoutMs: 35_000,
  input: Type.Object(
    {
      query: Type.String({ minLength: 1, maxLength: 400, pattern: NOT_BLANK_PATTERN }),
      max_results: Type.Optional(
        Type.Integer({ minimum: 1, maximum: 20, default: DEFAULT_MAX_RESULTS }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    results: Type.Array(
      Type.Object({
        title: Type.String(),
        url: Type.String({ format: 'uri' }),
        snippet: Type.String(),
        source: Type.String({ description: 'The provider that found it.' }),
      }),
    ),
    query: Type.String(),
    count: Type.Integer({ minimum: 0 }),
    degraded: Type.Optional(
      Type.Boolean({ description: 'No web engine answered: these are Hive entries.' }),
    ),
    sources_failed: Type.Optional(
      Type.Array(Type.Object({ source: Type.String(), code: Type.String() }), {
        description: 'Engines that failed before.',
      }),
    ),
  }),
  availability: ({ search }) => ({
    available: true,
    mode: 'live',
    requires: [],
    providers: [...search.providers],
  }),
  async run({ query, max_results = DEFAULT_MAX_RESULTS }, { search, caller, signal, emit, meter }) {
    const wanted = { query, limit: max_results, owner: callerIdOf(caller) }
    const answer = await search.searchWeb(wanted, signal, (status) =>
      emit({ type: 'progress', step: status.source, note: status.outcome }),
    )
    const { results, source, degraded, failed } = answer
    if (degraded) meter.waive('no source of the web answered')
    else meter.served(source, answer.mode)
    emit({ type: 'partial', path: '/results', value: results })
    return {
      results: [...results],
      query,
      count: results.length,
      ...(degraded ? { degraded } : {}),
      ...(failed.length > 0 ? { sources_failed: [...failed] } : {}),
    }
  },
})
