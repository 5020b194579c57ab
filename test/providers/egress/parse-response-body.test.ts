import t from 'tap'
import dataRetrieval from '../../../tools/web/data-retrieval.ts'
import { parseIpAddressAllowlist } from '../../../providers/egress/public-ip-address.ts'
import { createEgressClient } from '../../../providers/egress/guarded-egress-client.ts'
import { createPageParserPool } from '../../../providers/pages/page-parser-pool.ts'
import { startTestDataRetrievalWebsite } from '../../support/upstreams/test-data-retrieval-website.ts'
import {
  createRecordingToolContext,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const pages = createPageParserPool()
t.teardown(() => pages.close())

t.test(
  'bodies are parsed as JSON, text in their charset, or CSV, else as text with the reason',
  async (t) => {
    const web = await startTestDataRetrievalWebsite(t)
    const guard = createEgressClient({
      userAgent: 'test/1',
      resolve: async () => [{ address: '127.0.0.1', family: 4 }],
      allow: parseIpAddressAllowlist(`127.0.0.1:${web.port}`),
    })
    t.teardown(() => guard.close())
    const run = async (path: string, format?: 'json' | 'text' | 'csv') => {
      const input = { url: web.base + path, ...(format === undefined ? {} : { format }) }
      const { context: given } = createRecordingToolContext({ egress: guard, pages })
      await dataRetrieval.preflight?.(input, given)
      return dataRetrieval.run(input, given)
    }
    t.match(await run('/json'), {
      data: { answer: 42 },
      status_code: 200,
      content_type: 'application/json',
      fetched_at: '2026-11-21T10:00:00.000Z',
    })
    t.match(await run('/404'), { data: { error: 'no such page' }, status_code: 404 })
    t.match(await run('/500'), { status_code: 500 })
    t.match(await run('/gzip'), { data: { packed: true } })
    t.match(await run('/latin1', 'text'), { data: 'café' })
    t.strictSame((await run('/csv', 'csv')).data, [
      { name: 'ada', note: 'says "hi", twice' },
      { name: 'bob', note: 'two\nlines' },
    ])
    t.match(await run('/broken'), { data: '{"answer":', parse_error: /JSON/ })
    t.match(await run('/deep'), { data: /^\[\[/, parse_error: 'nested deeper than 100 levels' })
    t.match(await awaitRejectionDetails(run('/zstd', 'text')), { code: 'upstream_schema' })
    t.match(await awaitRejectionDetails(run('/bomb')), { code: 'response_too_large' })
    t.match(await awaitRejectionDetails(run('/redirect')), { code: 'blocked_url' })
  },
)

t.test(
  'hostile bodies are parsed with bounded size and time, and without losing a cell',
  async (t) => {
    const parse = (format: 'json' | 'csv', text: string) => {
      const source = { body: Buffer.from(text), contentType: null, url: 'https://a.test/' }
      return pages.parseBody(source, format, { owner: 'a' })
    }
    const csv = (text: string) => parse('csv', text)
    t.match(await csv(`${'n'.repeat(100_000)}\n${'1\n'.repeat(100_000)}`), {
      parse_error: /too large/,
    })
    t.match(await csv('a,b\n"open'), { parse_error: /malformed CSV at character 4/ })
    t.match(await csv('"'.repeat(999_999)), { parse_error: /malformed|stack|exceeded/i })
    t.strictSame((await csv('a,b\n1\n2,3\n,\n')).data, [
      { a: '1' },
      { a: '2', b: '3' },
      { a: '', b: '' },
    ])
    t.strictSame(
      (await csv('\ufeffa,b\n1,2')).data,
      [{ a: '1', b: '2' }],
      'a byte order mark is no name',
    )
    for (const [text, why] of [
      ['a,b\n1,2,3', /record 1 has 3 cells, and the first line names 2/],
      ['a,a\n1,2', /same name/],
    ] as const)
      t.match(await csv(text), { data: text, parse_error: why }, 'no cell is lost')
    t.strictSame((await csv('')).data, [])
    t.match((await csv(`a,b\n"${'x'.repeat(900_000)}",2`)).data, [{ b: '2' }])
    const many = (count: number, piece: (at: number) => string) =>
      Array.from({ length: count }, (_, at) => piece(at)).join(',')
    for (const [format, text, why] of [
      ['csv', `a\n${'1\n'.repeat(500_000)}`, /too large as records/],
      ['csv', `${'n'.repeat(20)}\n${'1\n'.repeat(60_000)}`, /too large as records/],
      ['json', `{${many(95_000, (at) => `"${at.toString(36)}":1`)}}`, /more than 10000 names/],
      ['json', `[${many(200_000, () => '1')}]`, /more than 100000 values/],
    ] as const)
      t.match(await parse(format, text), { data: text, parse_error: why }, text.slice(0, 20))
    t.match(await parse('json', `[${many(99_999, () => '1')}]`), { data: [1] })
  },
)
