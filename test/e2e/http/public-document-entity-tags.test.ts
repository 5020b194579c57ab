import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const { station, onboard } = await startInProcessTestStation(t, { RATE_LIMITS: 'on' })
const { server } = station
const get = (url: string, headers: Record<string, string> = {}) => server.inject({ url, headers })
const DOCUMENTS = ['/api/tools', '/api/tools?category=web', '/api/openapi.json', '/problems']

interface Listing {
  total: number
  tools: { slug: string; category: string }[]
}

t.test('public documents have tags, and headers of each request of their own', async (t) => {
  const { key } = await onboard()
  for (const url of DOCUMENTS) {
    const first = await get(url, { 'x-forwarded-for': '203.0.113.1' })
    const keyed = await get(url, { 'x-forwarded-for': '203.0.113.2', 'x-api-key': key })
    t.equal(first.statusCode, 200)
    t.equal(keyed.body, first.body, `${url} is the same for everybody`)
    t.ok(Number(first.headers['content-length']) > 1_000)
    const again = await get(url, {
      'x-forwarded-for': '203.0.113.1',
      'if-none-match': String(first.headers.etag),
    })
    t.match(again, { statusCode: 304, body: '' })
    for (const { headers } of [first, again])
      t.match(headers, {
        etag: first.headers.etag,
        'access-control-allow-origin': '*',
        'cache-control': /^public, /,
        'ratelimit-policy': /^"visitor";/,
      })
    t.not(first.headers['ratelimit'], again.headers['ratelimit'], 'what is left is counted')
    const zipped = await get(url, { 'accept-encoding': 'gzip, br' })
    t.equal(zipped.headers['content-encoding'], 'br')
  }
})

t.test('each category is a listing of its own', async (t) => {
  const all = (await get('/api/tools')).json<Listing>()
  const categories = [...new Set(all.tools.map(({ category }) => category))]
  const tags = new Set([(await get('/api/tools')).headers.etag])
  let total = 0
  for (const category of categories) {
    const reply = await get(`/api/tools?category=${category}`)
    const listing = reply.json<Listing>()
    t.strictSame(
      listing.tools,
      all.tools.filter((tool) => tool.category === category),
    )
    total += listing.total
    tags.add(reply.headers.etag)
  }
  t.equal(total, all.total)
  t.equal(tags.size, categories.length + 1)
  for (const query of ['category=none', 'category=web&category=memory', 'size=1'])
    t.match(await get(`/api/tools?${query}`), { statusCode: 400, headers: { etag: undefined } })
})
