import t from 'tap'
import { startTestCommunityToolMarket } from '../../support/tools/test-community-tool-market.ts'
import { sendJsonFixture } from '../../support/upstreams/fixture-server.ts'

/** Lists that contain tools of strangers come in pages of a bounded size. */

const market = await startTestCommunityToolMarket(t)
const { ask, builder, open } = market
builder.on('/weather', (_, reply) => sendJsonFixture(reply, { celsius: 1 }))
/** About 30 KB. */
const large = {
  type: 'object',
  properties: Object.fromEntries(
    Array.from({ length: 120 }, (_, n) => [
      `f${n}`,
      { type: 'string', description: 'x'.repeat(200) },
    ]),
  ),
}
const SLUGS = Array.from({ length: 6 }, (_, n) => `large-tool-${n}`)
for (const slug of SLUGS) await open(slug, '/weather', { input_schema: large, example: {} })

t.test('the catalogue has pages without schemas of strangers, and each tool once', async (t) => {
  const seen: string[] = []
  let cursor = ''
  do {
    const { body, text } = await ask('GET', `/api/tools?limit=4${cursor}`)
    const tools = body['tools'] as { slug: string; type: string }[]
    t.notMatch(text, /xxxxxxxx/, 'no schema of a stranger')
    t.equal(body['community_count'], SLUGS.length)
    seen.push(...tools.filter(({ type }) => type === 'community').map(({ slug }) => slug))
    t.equal(
      tools.some(({ type }) => type === 'native'),
      cursor === '',
    )
    cursor = body['next_cursor'] === null ? '' : `&cursor=${body['next_cursor'] as string}`
  } while (cursor !== '')
  t.strictSame(seen, SLUGS)
  t.match(await ask('GET', '/api/tools?cursor=!'), { status: 400 })
  t.match((await ask('GET', `/api/tools/${SLUGS[0]}`)).text, /xxxxxxxx/)
})

t.test('MCP pages end at a number of characters', async (t) => {
  const seen: string[] = []
  let cursor: unknown = null
  let pages = 0
  do {
    const params = cursor === null ? {} : { cursor }
    const { body, text } = await ask('POST', '/mcp?community=1', {
      json: { jsonrpc: '2.0', id: 1, method: 'tools/list', params },
      headers: { accept: 'application/json, text/event-stream' },
    })
    t.ok(text.length < 300_000, `${text.length} characters`)
    const result = body['result'] as { tools: { name: string }[]; nextCursor?: string }
    seen.push(...result.tools.map(({ name }) => name).filter((name) => name.startsWith('large')))
    cursor = result.nextCursor ?? null
    pages += 1
  } while (cursor !== null && pages < 10)
  t.ok(pages > 2)
  t.strictSame(seen, SLUGS)
})

t.test('a document without pages leaves out what is large and unverified', async (t) => {
  await open('small-tool', '/weather')
  for (const path of [
    '/openapi.json?community=1',
    '/api/store',
    '/mech/metadata',
    '/api/pricing.json',
    '/sitemap.xml',
  ]) {
    const { text } = await ask('GET', path)
    t.match(text, /small-tool/, path)
    t.notMatch(text, /large-tool/, path)
  }
})

t.test('the header Link leads through the pages of a format', async (t) => {
  const seen: string[] = []
  let path: string | undefined = '/api/tools?format=anthropic&community=1'
  for (let pages = 0; path !== undefined && pages < 10; pages += 1) {
    const { text, headers } = await ask('GET', path)
    const tools = JSON.parse(text) as { name: string }[]
    seen.push(...tools.map(({ name }) => name).filter((name) => name.startsWith('large')))
    path = /^<([^>]+)>; rel="next"$/.exec(String(headers['link']))?.[1]
  }
  t.strictSame(seen, SLUGS)
})

t.test('what is opened between two pages moves no tool to another page', async (t) => {
  const path = '/api/tools?format=anthropic&community=1'
  await ask('GET', path)
  await open('large-first', '/weather', { input_schema: large, example: {} })
  const first = await ask('GET', path)
  const next = /^<([^>]+)>/.exec(String(first.headers['link']))?.[1]
  const second = await ask('GET', String(next))
  const names = [first, second].flatMap(({ text }) =>
    (JSON.parse(text) as { name: string }[]).map(({ name }) => name),
  )
  const pages = names.filter((name) => name.startsWith('large-tool'))
  t.strictSame(pages, SLUGS.slice(0, pages.length))
  t.ok(pages.length > 1)
})
