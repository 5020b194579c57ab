import Type from 'typebox'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import { defineTool, workerPlaceOf } from '../define-tool.ts'
import { liveOrFixtureModeOfUrl } from '../../providers/egress/public-ip-address.ts'

/** The tool `data-retrieval`: fetches a URL. */

const MAX_RESPONSE_BYTES = 1024 * 1024

export default defineTool({
  slug: 'data_retrieval',
  name: 'Data Retrieval',
  category: 'web',
  description:
    'Fetches a public URL as JSON, text or CSV. Header values may name {{keyring.NAME}}; an answer of any status is a result.',
  tags: ['http', 'fetch', 'json', 'csv'],
  useCases: ['Call a JSON API', 'Download a CSV', 'Use an API key without showing it to the agent'],
  examples: [
    { url: 'https://api.github.com/repos/nodejs/node' },
    { url: 'https://example.com/data.csv', format: 'csv' },
  ],
  access: 'free_with_key',
  price: ZERO_MICROS,
  keyless: fromUsdc(0.01),
  effect: 'none',
  timeoutMs: 20_000,
  input: Type.Object(
    {
      url: Type.String({ format: 'uri', maxLength: 4096 }),
      headers: Type.Optional(
        Type.Record(Type.String(), Type.String({ maxLength: 4096 }), { maxProperties: 32 }),
      ),
      format: Type.Optional(Type.Enum(['json', 'text', 'csv'], { default: 'json' })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    data: Type.Unknown({ description: 'Parsed JSON, text, or an array of CSV records.' }),
    status_code: Type.Integer(),
    content_type: Type.Union([Type.String(), Type.Null()]),
    fetched_at: Type.String({ format: 'date-time' }),
    url: Type.String({ description: 'The address after redirects.' }),
    parse_error: Type.Optional(
      Type.String({
        description: 'Why the body is text instead of the requested format.',
      }),
    ),
  }),
  availability: () => ({ available: true, mode: 'live', requires: [], providers: [] }),
  async preflight({ url, headers = {} }, { egress, secrets, signal }) {
    await egress.preflight({ url, headers, secrets, signal })
  },
  async run({ url, headers = {}, format = 'json' }, context) {
    const { egress, pages, secrets, signal, now, meter } = context
    const reply = await egress.fetch({
      url,
      headers,
      secrets,
      signal,
      maxBytes: MAX_RESPONSE_BYTES,
    })
    const contentType = reply.headers['content-type'] ?? null
    meter.served(new URL(reply.url).host, liveOrFixtureModeOfUrl(reply.url))
    const source = { body: reply.body, contentType, url: reply.url }
    return {
      ...(await pages.parseBody(source, format, workerPlaceOf(context))),
      status_code: reply.status,
      content_type: contentType,
      fetched_at: now().toISOString(),
      url: reply.url,
    }
  },
})
