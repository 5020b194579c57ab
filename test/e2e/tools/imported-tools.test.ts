import type { IncomingMessage, ServerResponse } from 'node:http'
import t from 'tap'
import { nameImportedTools, type ImportedTool } from '../../../tools/import/imported-tool.ts'
import { LIMITS } from '../../../core/limits.ts'
import { createEgressClient } from '../../../providers/egress/guarded-egress-client.ts'
import { parseIpAddressAllowlist } from '../../../providers/egress/public-ip-address.ts'
import { callRemoteMcpTool } from '../../../providers/mcp/mcp-streamable-http-client.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** Tools that are imported from an OpenAPI document and from an MCP server, over HTTP. */

const SECRET = 'Bearer upstream-credential-4711'
const text = (schema: object = { type: 'string' }) => ({
  content: { 'application/json': { schema } },
  description: 'ok',
})
const path = (name: string) => ({ name, in: 'path', required: true, schema: { type: 'string' } })

/** What the service answers, and what it was asked. */
const asked: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] =
  []
const shown = { token: '' }

const document = (extra: object = {}, openapi = '3.0.3') => ({
  openapi,
  info: { title: 'Pet Shop API', version: '1' },
  // Never called: the origin comes from the request.
  servers: [{ url: 'https://evil.example/v1' }],
  paths: {
    '/pets': {
      get: {
        operationId: 'listPets',
        summary: 'All pets',
        parameters: [
          { name: 'tags[]', in: 'query', schema: { type: 'array', items: { type: 'string' } } },
          { name: 'limit', in: 'query', schema: { type: 'integer', maximum: 9, nullable: true } },
          { name: 'X-Trace', in: 'header', schema: { type: 'string' } },
          { name: 'Authorization', in: 'header', required: true, schema: { type: 'string' } },
          { name: 'X-Forwarded-For', in: 'header', schema: { type: 'string' } },
          { name: 'session', in: 'cookie', schema: { type: 'string' } },
        ],
        responses: {
          200: text({ type: 'array', items: { $ref: '#/components/schemas/Pet' } }),
        },
      },
      post: {
        operationId: 'addPet',
        requestBody: text({ $ref: '#/components/schemas/Pet' }),
        responses: { 201: text({ $ref: '#/components/schemas/Pet' }) },
      },
    },
    '/pets/{petId}': {
      parameters: [path('petId')],
      get: { operationId: 'getPet', responses: { 200: text({}) } },
      delete: { operationId: 'removePet', responses: { 204: { description: 'gone' } } },
    },
    ...extra,
  },
  components: {
    schemas: {
      Pet: {
        type: 'object',
        required: ['name'],
        properties: {
          name: { type: 'string' },
          kind: { $ref: '#/components/schemas/Kind' },
          price: { type: 'number', multipleOf: 0.01 },
          fee: { type: 'number', multipleOf: 0.3 },
        },
      },
      Kind: { type: 'string', enum: ['cat', 'dog'] },
      Loop: { type: 'object', properties: { next: { $ref: '#/components/schemas/Loop' } } },
    },
  },
})
const manyPaths = () =>
  Object.fromEntries(
    Array.from({ length: 1_001 }, (_, n) => [`/p${n}`, { get: { responses: {} } }]),
  )
const loop = {
  '/loop': {
    post: {
      operationId: 'loop',
      requestBody: text({ $ref: '#/components/schemas/Loop' }),
      responses: {},
    },
  },
}
/** One answer of many characters for all operations. */
const wide = () => {
  const made = document({
    '/odd': {
      get: {
        operationId: 'odd',
        parameters: [{ name: 'a', in: 'query', schema: { enum: ['\0'] } }],
        responses: {},
      },
    },
    '/wide': {
      get: {
        operationId: 'wide',
        parameters: [{ name: 'a', in: 'query', schema: { $ref: '#/components/schemas/Wide' } }],
        responses: {},
      },
    },
  })
  const Wide = { type: 'string', 'x-note': 'x'.repeat(200_000) }
  return { ...made, components: { schemas: { ...made.components.schemas, Wide } } }
}
const DOCUMENTS: Record<string, () => unknown> = {
  '/openapi.json': () => document(),
  '/openapi31.json': () => document({}, '3.1.0'),
  '/swagger.json': () => ({ ...document(), openapi: undefined, swagger: '2.0' }),
  '/loop.json': () => document(loop),
  '/wide.json': wide,
  '/many.json': () => document(manyPaths()),
  '/foreign.json': () =>
    document({ '/x': { get: { parameters: [{ $ref: 'file:///etc/hostname' }], responses: {} } } }),
  '/large.json': () => ({ ...document(), x: 'x'.repeat(5 * 1024 * 1024) }),
}

/** A server of MCP with a session; `greet` fails for an empty name. */
function answerMcp(body: string, response: ServerResponse): void {
  const { id, method, params } = JSON.parse(body) as {
    id?: number
    method: string
    params?: { arguments?: { name?: string } }
  }
  const events = (result: object) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'mcp-session-id': 's-1' })
    response.end(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`)
  }
  if (id === undefined) return void response.writeHead(202).end()
  if (method === 'initialize')
    return events({ protocolVersion: '2025-06-18', serverInfo: { name: 'Greeter', version: '1' } })
  if (method === 'tools/list')
    return events({
      tools: [
        {
          name: 'greet',
          description: 'Greets.',
          inputSchema: { type: 'object', properties: { name: { type: 'string' } } },
        },
      ],
    })
  const name = params?.arguments?.name ?? ''
  events({
    content: [{ type: 'text', text: name === '' ? 'who?' : `Hello ${name}, ${SECRET}` }],
    isError: name === '',
  })
}

const site = await startFixtureServer(t, (request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => {
    const body = Buffer.concat(pieces).toString()
    const { method = '', url = '', headers } = request
    const made = DOCUMENTS[url]
    if (made !== undefined) return sendJsonFixture(response, made())
    if (url === '/.well-known/gas-station.txt') return void response.end(shown.token)
    if (url === '/silent') return
    if (url === '/mcp' && method === 'POST') return answerMcp(body, response)
    asked.push({ method, url, headers, body })
    if (url.startsWith('/v1/pets?'))
      return sendJsonFixture(response, [{ name: 'Tom', kind: 'cat' }])
    if (method === 'POST') return sendJsonFixture(response, { ...JSON.parse(body), id: 7 }, 201)
    if (url === '/v1/pets/none') return sendJsonFixture(response, { error: 'no such pet' }, 404)
    if (url === '/v1/pets/moved') return void response.writeHead(302, { location: '/' }).end()
    const plain = SECRET.replace('Bearer ', '')
    sendJsonFixture(response, {
      path: url,
      echoed: [
        SECRET,
        plain,
        btoa(plain),
        encodeURIComponent(SECRET),
        Buffer.from(plain).toString('hex'),
      ],
    })
  })
})
const OPERATOR_TOKEN = 'o'.repeat(32)
const station = await startInProcessTestStation(t, {
  SSRF_ALLOW: `127.0.0.1:${site.port}`,
  OPERATOR_TOKEN,
})
const { ask } = station
const [seller, buyer, other] = [
  await station.onboard(),
  await station.onboard(),
  await station.onboard(),
]
await insertArrivedDeposit(station, buyer.id, 5)
await station.balance(buyer)

const AWAY = { 'x-forwarded-for': '203.0.113.2' }
const run = (json: object, headers: Record<string, string> = {}, who: TestAgent = seller) =>
  ask('POST', '/api/tools/import', {
    key: who.key,
    json: { price_per_call_usdc: 0.01, ...json },
    headers,
  })
const operator = { 'x-operator-token': OPERATOR_TOKEN }
const openapi = (file = '/openapi.json') => `${site.base}${file}`
const buy = (slug: string, json: object) =>
  ask('POST', `/api/tools/${slug}/invoke`, { key: buyer.key, json, headers: AWAY })

t.test('an agent imports what its origin shows the token for, GET only by default', async (t) => {
  const refused = await run({ openapi_url: openapi() })
  t.match(refused, { status: 422, body: { code: 'origin_unproven' } })
  shown.token = (refused.body['challenge'] as { token: string }).token
  const made = await run({ openapi_url: openapi() })
  t.match(made, {
    status: 201,
    body: {
      tools: [
        { slug: 'pet-shop-api-list-pets', operation: 'listPets', status: 'probation' },
        { slug: 'pet-shop-api-get-pet', operation: 'getPet', imported: true },
      ],
      count: 2,
    },
  })
  const again = await run({
    openapi_url: openapi(),
    include: ['listPets', 'POST /pets', 'removePet'],
  })
  t.match(again.body['tools'], [
    { operation: 'listPets', imported: false },
    { slug: 'pet-shop-api-add-pet', imported: true },
    { slug: 'pet-shop-api-remove-pet', imported: true },
  ])
  shown.token = ''
  t.match(await run({ openapi_url: openapi(), prefix: 'mine' }, {}, other), { status: 422 })
  t.match(await run({ openapi_url: openapi() }, operator, other), {
    status: 409,
    body: { code: 'slug_taken' },
  })
})

t.test(
  'a bought call is one request of the operation, and nothing of the buyer goes along',
  async (t) => {
    const before = await station.balance(buyer)
    const reply = await ask('POST', '/api/tools/pet-shop-api-list-pets/invoke', {
      key: buyer.key,
      json: { tags__: ['a b', 'c&d'], limit: 3, X_Trace: 't-1' },
      headers: { ...AWAY, cookie: 'session=1', 'x-custom': 'mine' },
    })
    t.match(reply, { status: 200, body: { status: 200, data: [{ name: 'Tom', kind: 'cat' }] } })
    t.equal(await station.balance(buyer), Math.round((before - 0.01) * 1e6) / 1e6)
    const [sent] = asked.splice(0)
    t.equal(sent?.url, '/v1/pets?tags%5B%5D=a%20b&tags%5B%5D=c%26d&limit=3')
    t.equal(sent?.headers['x-trace'], 't-1')
    t.notMatch(
      JSON.stringify(sent?.headers),
      new RegExp(`session=1|mine|${buyer.key}|203\\.0\\.113`),
    )
    t.match(await buy('pet-shop-api-list-pets', { Authorization: 'Bearer x' }), { status: 400 })
    t.match(await buy('pet-shop-api-add-pet', { body: { name: 'Rex', kind: 'dog' } }), {
      body: { status: 201, data: { name: 'Rex', id: 7 } },
    })
    t.match(await buy('pet-shop-api-add-pet', { body: { name: 'Rex', kind: 'cow' } }), {
      status: 400,
    })
    asked.length = 0
    const odd = await buy('pet-shop-api-get-pet', { petId: '../admin?x=1#y/z' })
    t.equal(odd.status, 200)
    t.equal(asked[0]?.url, '/v1/pets/..%2Fadmin%3Fx%3D1%23y%2Fz', 'one encoded segment')
    for (const petId of ['..', '.', ''])
      t.match(await buy('pet-shop-api-get-pet', { petId }), {
        status: 422,
        body: { code: 'builder_refused' },
      })
    t.match(await buy('pet-shop-api-get-pet', { petId: 'none' }), {
      status: 422,
      body: { code: 'builder_refused', detail: /404.*no such pet/ },
    })
    t.match(await buy('pet-shop-api-get-pet', { petId: 'moved' }), {
      status: 502,
      body: { code: 'upstream_error', refunded: true },
    })
  },
)

t.test('an amount with the decimals that its schema asks for passes', async (t) => {
  const add = (fields: object) => buy('pet-shop-api-add-pet', { body: { name: 'Rex', ...fields } })
  for (const price of [9, 0.07, 1.1, 4.35, 19.99, 37.77, 123_456.78, 8_123_456_789.01, 1e21])
    t.match(await add({ price }), { status: 200, body: { data: { price } } }, String(price))
  for (const price of [0.001, 0.015, 19.991, 1e-7])
    t.match(await add({ price }), {
      status: 400,
      body: { detail: /price must be multiple of 0.01/ },
    })
  t.equal((await add({ fee: 0.9 })).status, 200)
  t.equal((await add({ fee: 1e16 })).status, 400, 'also where doubles have no fractions')
})

t.test(
  'the credential of the service is sealed, sent to its origin, and never answered',
  async (t) => {
    const made = await run(
      {
        openapi_url: openapi('/openapi31.json'),
        include: ['getPet'],
        prefix: 'sealed',
        upstream_header: 'Authorization',
        upstream_value: SECRET,
      },
      operator,
    )
    t.match(made, { status: 201, body: { count: 1 } })
    asked.length = 0
    const reply = await buy('sealed-get-pet', { petId: 'tom' })
    t.equal(asked[0]?.headers.authorization, SECRET)
    t.match(reply.body, { data: { path: '/v1/pets/tom' } })
    const plain = SECRET.replace('Bearer ', '')
    for (const form of [plain, btoa(plain).replace(/=+$/, ''), Buffer.from(plain).toString('hex')])
      t.notOk(reply.text.includes(form), form)
    const [stored] = await station.sql<{ sealed: Buffer }[]>`select sealed from tool_credentials`
    t.notOk(stored?.sealed.toString('latin1').includes(plain))
  },
)

t.test('tools of an MCP server are called in a session each', async (t) => {
  t.match(await run({ mcp_url: openapi('/mcp') }, operator), {
    status: 201,
    body: { tools: [{ slug: 'greeter-greet', operation: 'greet' }] },
  })
  const reply = await buy('greeter-greet', { name: 'Ann' })
  t.match(reply, { status: 200, body: { content: [{ type: 'text', text: /^Hello Ann, / }] } })
  t.notMatch(reply.text, /4711/)
  const failed = await buy('greeter-greet', { name: '' })
  t.match(failed, { status: 422, body: { code: 'builder_refused', detail: /who\?/ } })
})

t.test('a server of MCP that answers nothing is out of time', async (t) => {
  const allow = parseIpAddressAllowlist(`127.0.0.1:${site.port}`)
  const egress = createEgressClient({ allow, userAgent: 'test' })
  t.teardown(() => egress.close())
  const { signal } = new AbortController()
  const server = { url: openapi('/silent'), headers: {}, maxBytes: 1_000, timeoutMs: 50, signal }
  await t.rejects(callRemoteMcpTool(egress, server, 'greet', {}), { code: 'upstream_timeout' })
})

t.test('what cannot be imported is a named problem, and imports nothing', async (t) => {
  const count = async () =>
    (await station.sql<{ n: number }[]>`select count(*)::int as n from community_tools`)[0]?.n
  const before = await count()
  const refused = { status: 422, body: { code: 'import_refused' } }
  for (const [json, expected] of [
    [{ openapi_url: openapi('/large.json') }, refused],
    [{ openapi_url: openapi('/many.json') }, refused],
    [{ openapi_url: openapi('/swagger.json') }, refused],
    [{ openapi_url: openapi('/foreign.json') }, refused],
    [{ openapi_url: openapi('/loop.json'), include: ['listPets', 'loop'] }, refused],
    [{ openapi_url: openapi('/wide.json'), include: ['odd'] }, refused],
    [{ openapi_url: openapi('/wide.json'), include: ['wide'] }, refused],
    [{ openapi_url: openapi('/absent.json') }, refused],
    [{ openapi_url: openapi(), include: ['fly'] }, refused],
    [
      { openapi_url: 'http://10.0.0.1/openapi.json' },
      { status: 422, body: { code: 'blocked_url' } },
    ],
    [
      { openapi_url: openapi(), base_url: 'http://169.254.169.254/' },
      { status: 422, body: { code: 'blocked_url' } },
    ],
    [{ mcp_url: 'http://[::1]/mcp' }, { status: 422, body: { code: 'blocked_url' } }],
    [{ openapi_url: openapi(), mcp_url: openapi('/mcp') }, { status: 400 }],
    [{}, { status: 400 }],
    [
      { openapi_url: openapi(), upstream_header: 'Host', upstream_value: 'other.example' },
      { status: 400, body: { errors: [{ pointer: '/upstream_header' }] } },
    ],
  ] as const) {
    const reply = await run({ prefix: 'never', ...json }, operator)
    t.match(reply, expected, `${JSON.stringify(json)} ${reply.text.slice(0, 200)}`)
  }
  t.match(await run({ openapi_url: openapi() }, { 'x-operator-token': 'wrong' }), { status: 401 })
  t.equal(await count(), before)
  t.ok(LIMITS.importedDocumentBytes < 5 * 1024 * 1024)
  await station.verify()
})
t.test('operations whose names look the same get a number', async (t) => {
  const tools = ['getA1', 'get-al', 'getAl', 'other'].map((operation) => ({ operation }))
  t.strictSame(
    nameImportedTools('p', tools as ImportedTool[]).map(({ slug }) => slug),
    ['p-get-a1', 'p-get-al-2', 'p-get-al-3', 'p-other'],
  )
})
