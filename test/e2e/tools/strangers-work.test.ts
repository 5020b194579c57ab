import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** Documents, schemas, patterns and answers of strangers at their largest: the station's own thread stays free. */

/**
 * Milliseconds of processor time of this thread, which serves the station, the test and its servers. A fault of this
 * kind took seconds of it.
 */
const MAX_OWN_CPU_MS = 400
const cpuOfThisThread = (): number =>
  Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6

/** 368 KB: 1,000 operations that all refer to one schema of 43,000 parts. */
const tower = () => {
  const B = { prefixItems: Array.from({ length: 43_000 }, () => ({})) }
  const schema = { $ref: '#/components/schemas/B' }
  const operation = {
    parameters: [{ name: 'a', in: 'query', schema }],
    responses: { 200: { description: '', content: { 'application/json': { schema } } } },
  }
  const paths = Object.fromEntries(
    Array.from({ length: 1_000 }, (_, n) => [`/p${n}`, { get: operation }]),
  )
  return JSON.stringify({
    openapi: '3.1.0',
    info: { title: 'T' },
    paths,
    components: { schemas: { B } },
  })
}
const many = () => {
  const patterns = Object.fromEntries(
    Array.from({ length: 8 }, (_, n) => [
      `f${n}`,
      { type: 'string', pattern: `(?:\\pL?){${990 + n}}x` },
    ]),
  )
  return Array.from({ length: 1_000 }, (_, n) => ({
    name: `t${n}`,
    inputSchema: { type: 'object', properties: patterns },
  }))
}

const shown = { token: '' }
const answers = new Map<string, string>()
const asked: { url: string; headers: NodeJS.Dict<string | string[]> }[] = []
const site = await startFixtureServer(t, (request, response) => {
  const { url = '', headers } = request
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => {
    if (url === '/.well-known/gas-station.txt') return void response.end(shown.token)
    asked.push({ url, headers })
    if (url !== '/mcp') return void response.end(answers.get(url) ?? '{}')
    const { id, method } = JSON.parse(Buffer.concat(pieces).toString()) as Record<string, unknown>
    if (id === undefined) return void response.writeHead(202).end()
    const result = method === 'initialize' ? { serverInfo: { name: 'Many' } } : { tools: many() }
    sendJsonFixture(response, { jsonrpc: '2.0', id, result })
  })
})
answers.set('/tower.json', tower())
const station = await startInProcessTestStation(t, { SSRF_ALLOW: `127.0.0.1:${site.port}` })
const { ask } = station
const [seller, buyer] = [await station.onboard(), await station.onboard()]
await insertArrivedDeposit(station, buyer.id, 5)
await station.balance(buyer)

const post = (url: string, json: object, key: string | undefined = seller.key) =>
  ask('POST', url, { ...(key === undefined ? {} : { key }), json })
const importing = (json: object) =>
  post('/api/tools/import', { price_per_call_usdc: 0.01, ...json })
const register = (slug: string, more: object) =>
  post('/api/tools/register', {
    slug,
    name: 'A tool',
    description: 'A tool of a stranger.',
    endpoint_url: `${site.base}/${slug}`,
    price_per_call_usdc: 0.01,
    ...more,
  })
const withPattern = (pattern: string, more: object = {}) => ({
  input_schema: { type: 'object', properties: { a: { type: 'string', pattern, ...more } } },
})

/** Runs a request while others ask; fails if this thread was busy. */
async function measured<T>(t: Test, name: string, work: () => Promise<T>): Promise<T> {
  const before = cpuOfThisThread()
  const doing = work()
  const other = await ask('GET', '/api/tools/web_search', {})
  t.equal(other.status, 200, `${name}: another request is answered`)
  const done = await doing
  const spent = Math.round(cpuOfThisThread() - before)
  t.ok(spent < MAX_OWN_CPU_MS, `${name}: ${spent} ms of the station's thread`)
  return done
}

t.test('nothing is read, compiled or called before the origin is proven', async (t) => {
  const credential = { upstream_header: 'X-Evil', upstream_value: 'chosen-by-me' }
  for (const json of [
    { openapi_url: `${site.base}/tower.json` },
    { mcp_url: `${site.base}/mcp` },
  ]) {
    const reply = await measured(t, JSON.stringify(json), () =>
      importing({ ...json, ...credential }),
    )
    t.match(reply, { status: 422, body: { code: 'origin_unproven' } })
  }
  t.match(await register('relay', { endpoint_url: `${site.base}/relay` }), { status: 201 })
  for (const who of [seller, buyer])
    for (const url of [
      '/api/tools/relay/invoke',
      '/api/quote',
      '/api/refuel',
      '/api/refuel/stream',
    ])
      t.match(
        await post(url, { tool: 'relay', a: 'c'.repeat(1_000) }, who.key),
        { status: 409 },
        url,
      )
  t.match(
    await post('/api/task/schedule', { tool: 'relay', interval: '1h', params: {} }, buyer.key),
    { status: 409 },
  )
  t.strictSame(asked, [], 'the origin saw reads of its token only')
})

t.test('the largest documents cost this thread nothing', async (t) => {
  const refused = await importing({ openapi_url: `${site.base}/tower.json` })
  shown.token = (refused.body['challenge'] as { token: string }).token
  const all = await measured(t, 'all operations', () =>
    importing({ openapi_url: `${site.base}/tower.json` }),
  )
  t.match(all, { status: 409 }, 'the limit of tools comes before any conversion')
  const include = Array.from({ length: 18 }, (_, n) => `GET /p${n}`)
  const some = await measured(t, '18 operations', () =>
    importing({ openapi_url: `${site.base}/tower.json`, include }),
  )
  t.match(some, { status: 422, body: { code: 'import_refused' } })
  const mcp = await measured(t, 'MCP', () =>
    importing({ mcp_url: `${site.base}/mcp`, include: include.map((_, n) => `t${n}`) }),
  )
  t.match(mcp, { status: 201, body: { count: 18 } }, 'patterns that are too dear are left out')
})

t.test('a pattern is refused by the size of its program', async (t) => {
  for (const pattern of ['(?:[ab]?){999}[cd]$', '(?:\\pL?){999}x', '^(?:\\w{1,30}\\.){1,10}$']) {
    const reply = await measured(t, pattern, () => register('dear', withPattern(pattern)))
    t.match(reply.body, {
      code: 'invalid_input',
      errors: [{ pointer: '/input_schema/properties/a/pattern', detail: /instructions/ }],
    })
  }
  t.match(await register('dear', withPattern('^(?:[ab]?){200}c$', { maxLength: 100_000 })), {
    status: 400,
    body: { errors: [{ detail: /maxLength of at most \d+/ }] },
  })
})

t.test('input and answers are checked within a number of steps', async (t) => {
  const made = await register('steps', {
    endpoint_url: `${site.base}/steps`,
    ...withPattern('(?:[ab]?){200}[cd]$'),
  })
  t.match(made, { status: 201, body: { status: 'probation' } })
  t.match(await post('/api/tools/steps/invoke', { a: 'c' }, buyer.key), { status: 200 })
  for (const key of [buyer.key, undefined]) {
    const reply = await measured(t, 'input', () =>
      post('/api/tools/steps/invoke', { a: `c${'a'.repeat(200_000)}` }, key),
    )
    t.match(reply, { status: 400, body: { errors: [{ detail: /too large for its schema/ }] } })
  }
  answers.set('/steps', `{"proto":1,"a":[${'1,'.repeat(99_000)}1]}`)
  const large = await measured(t, 'answer', () => post('/api/tools/steps/invoke', {}, buyer.key))
  t.equal(large.status, 200)
  await station.verify()
})

/** An answer, and what the caller gets: [answer, content type or status, code]. */
type Row = readonly [name: string, body: string | Buffer, code: string | null, json?: unknown]
const ROWS: readonly Row[] = [
  ['a number that JSON cannot hold', '{"a":1e999}', 'tool_output_invalid'],
  ['one deep inside', '{"a":[{"b":-1e400}]}', 'tool_output_invalid'],
  ['__proto__', '{"a":{"__proto__":1}}', 'tool_output_invalid'],
  ['__proto__ in escapes', '{"\\u005f_proto__":1}', 'tool_output_invalid'],
  ['duplicate keys: the last one', '{"a":1,"a":2}', null, { a: 2 }],
  ['half an answer', '{"a":', 'tool_output_invalid'],
  ['nothing', '', 'tool_output_invalid'],
  ['a list', '[]', 'tool_output_invalid'],
  ['a BOM', '\ufeff{"a":1}', null, { a: 1 }],
  ['latin1', Buffer.from('{"a":"é"}', 'latin1'), 'tool_output_invalid'],
  ['UTF-16', Buffer.from('{"a":1}', 'utf16le'), 'tool_output_invalid'],
  ['half of a pair', '{"a":"\\ud800"}', 'tool_output_invalid'],
  ['100,000 levels', `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 'tool_output_invalid'],
  ['too many values', `{"a":[${'1,'.repeat(100_000)}1]}`, 'tool_output_invalid'],
  [
    'too many names',
    `{${Array.from({ length: 10_001 }, (_, at) => `"n${at}":1`).join(',')}}`,
    'tool_output_invalid',
  ],
  ['a field of the station', '{"_meta":1}', 'tool_output_invalid'],
  ['HTML', '<html>', 'tool_output_invalid'],
]
t.test('the table of answers: what the caller gets, who pays', async (t) => {
  for (const [name, body, code, json] of ROWS) {
    answers.set('/steps', body as string)
    const before = await station.balance(buyer)
    const reply = await post('/api/tools/steps/invoke', {}, buyer.key)
    if (code === null) t.match(reply, { status: 200, body: json as object }, name)
    else t.match(reply, { status: 502, body: { code, refunded: true } }, `${name} ${reply.text}`)
    const paid = Math.round((before - (await station.balance(buyer))) * 1e6) / 1e6
    t.equal(paid, code === null ? 0.01 : 0, name)
    // A good answer: the breaker starts over.
    answers.set('/steps', '{}')
    await post('/api/tools/steps/invoke', {}, buyer.key)
  }
  await station.verify()
})
