import { Validator } from '@seriousme/openapi-schema-validator'
import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { createOpenApiBodyValidator } from '../../support/http/openapi-body-validator.ts'
import type { TestAgent } from '../../support/station/start-test-station.ts'
import {
  TOOL_BUILDER_IP_HEADERS,
  startTestCommunityToolMarket,
  WEATHER_SCHEMAS,
} from '../../support/tools/test-community-tool-market.ts'
import { sendJson } from '../../support/tools/test-tool-builder-server.ts'

/** Tools of agents over HTTP: registered, proven, called, charged or refunded, changed and retired. */

const market = await startTestCommunityToolMarket(t)
const { builder, station, ask, seller, buyer, promoOnly } = market
const { tool, register, patch, invoke, cashOf, open } = market

builder.on('/weather', ({ body }, reply) =>
  sendJson(reply, { celsius: 21.5, city: (JSON.parse(body) as { city: string }).city }),
)

let secret = ''
t.test('a tool waits for the proof of its origin', async (t) => {
  const idempotent = { ...TOOL_BUILDER_IP_HEADERS, 'idempotency-key': 'register-weather' }
  const made = await register(seller, tool('weather-now'), idempotent)
  t.match(made, {
    status: 201,
    body: {
      slug: 'weather-now',
      status: 'pending',
      price_per_call_usdc: 0.01,
      invoke_url: 'http://gas.test/api/tools/weather-now/invoke',
      signing_secret: /^whsec_/,
      challenge: { passed: false, token: /^gas-station-token=/, problem: String },
    },
  })
  secret = String(made.body['signing_secret'])
  const again = await register(seller, tool('weather-now'), idempotent)
  t.strictSame(again.body, made.body, 'a repeated request has the same answer')
  t.equal(again.headers['idempotency-replayed'], 'true')
  t.match(await invoke(buyer, 'weather-now', { city: 'Rome' }), {
    status: 409,
    body: { code: 'tool_not_active', state: 'pending' },
  })
  const unproven = await patch('weather-now', { endpoint_url: builder.url('/weather') })
  t.match(unproven, { status: 422, body: { code: 'origin_unproven' } })
  const { token } = made.body['challenge'] as { token: string }
  builder.tokens.add(token)
  t.match(await patch('weather-now', { endpoint_url: builder.url('/weather') }, promoOnly), {
    status: 403,
    body: { code: 'tool_not_yours' },
  })
  const proven = await patch('weather-now', { endpoint_url: builder.url('/weather') })
  t.match(proven, { status: 200, body: { status: 'probation', signing_secret: null } })
})

t.test('what is not accepted', async (t) => {
  const refused: [string, object, number, string, RegExp?][] = [
    ['a native name', tool('web-search'), 409, 'slug_taken', /web_search/],
    ['one that looks like it', tool('websearch'), 409, 'slug_taken', /web_search/],
    ['one that is taken', tool('weather-now'), 409, 'slug_taken', /weather-now/],
    ['one that looks like that', tool('weathernow'), 409, 'slug_taken', /weather-now/],
    ['a way to spend', tool('bounty'), 409, 'slug_taken', /bounty/],
    ['the prefix of the station', tool('gas-price'), 409, 'slug_taken'],
    ['a slug with an underscore', tool('weather_x'), 400, 'invalid_input'],
    [
      'a private address',
      { ...tool('sky-a'), endpoint_url: 'http://10.0.0.1/x' },
      422,
      'blocked_url',
    ],
    ['no URL', { ...tool('sky-a'), endpoint_url: 'weather' }, 400, 'invalid_input'],
    [
      'a price below the least',
      { ...tool('sky-a'), price_per_call_usdc: 0.0001 },
      400,
      'invalid_input',
    ],
    [
      'a pattern that cannot be matched in linear time',
      {
        ...tool('sky-a'),
        input_schema: { type: 'object', properties: { a: { pattern: '(?=a)b' } } },
      },
      400,
      'invalid_input',
      /input_schema/,
    ],
    [
      'an example that does not match',
      { ...tool('sky-a'), example: { city: 'rome' } },
      400,
      'invalid_input',
      /example\/city/,
    ],
    [
      'an answer with a field of the station',
      { ...tool('sky-a'), output_schema: { type: 'object', properties: { hive: {} } } },
      400,
      'invalid_input',
      /hive/,
    ],
  ]
  for (const [says, json, status, code, about] of refused) {
    const answer = await register(seller, json)
    t.match({ status: answer.status, code: answer.body.code }, { status, code }, says)
    if (about !== undefined) t.match(answer.text, about, says)
  }
  t.equal((await ask('POST', '/api/tools/register', { json: tool('sky-a') })).status, 401)
})

t.test('a call is charged, and its builder gets 60 %', async (t) => {
  const before = { buyer: await cashOf(buyer), seller: await station.balance(seller) }
  const reply = await invoke(buyer, 'weather-now', { city: 'Rome' })
  t.match(reply, {
    status: 200,
    body: { celsius: 21.5, city: 'Rome', _meta: { cost_usdc: 0.01, rail: 'credits' } },
  })
  t.equal((await cashOf(buyer)).toFixed(6), (before.buyer - 0.01).toFixed(6), 'in cash')
  t.equal(((await station.balance(seller)) - before.seller).toFixed(6), '0.006000')
  const parts = await station.sql<{ kind: string; amount: bigint }[]>`
    select kind, amount_micros as amount from transfers
     where call_id = ${reply.body._meta.call_id} and kind in ('share', 'charge', 'fee') order by kind`
  t.strictSame(
    parts.map(({ kind, amount }) => [kind, Number(amount)]),
    [
      ['charge', 2_200],
      ['fee', 1_800],
      ['share', 6_000],
    ],
  )
  const { headers, body } = builder.received.at(-1) ?? { headers: {}, body: '' }
  t.match(headers, {
    'x-call-id': reply.body._meta.call_id,
    'webhook-id': reply.body._meta.call_id,
    'x-caller': /^caller_[\w-]{22}$/,
  })
  t.strictSame(new Webhook(secret).verify(body, headers as Record<string, string>), {
    city: 'Rome',
  })
  const text = JSON.stringify(headers)
  for (const told of [buyer.key, buyer.id, '203.0.113'])
    t.notOk(text.includes(told), 'nothing names the caller')
  t.notOk('x-forwarded-for' in headers || 'x-api-key' in headers)
})

t.test('bad input reaches no builder', async (t) => {
  const calls = builder.received.length
  t.match(await invoke(buyer, 'weather-now', { city: 'rome' }), {
    status: 400,
    body: { code: 'invalid_input', errors: [{ pointer: '/city' }] },
  })
  t.match(await invoke(buyer, 'weather-now', { city: 'Rome', more: 1 }), {
    status: 400,
    body: { errors: [{ pointer: '/more' }] },
  })
  t.equal(builder.received.length, calls)
})

t.test('promotional credits pay only where the builder takes them', async (t) => {
  const refused = await invoke(promoOnly, 'weather-now', { city: 'Rome' })
  t.match(refused, {
    status: 402,
    body: { code: 'cash_required', cash_usdc: 0, refunded: undefined, fund_url: String },
  })
  const quote = await ask('POST', '/api/quote', {
    key: promoOnly.key,
    json: { tool: 'weather-now', city: 'Rome' },
  })
  t.match(quote.body, { price_usdc: 0.01, would_refuse: { code: 'cash_required' } })
  await patch('weather-now', { accepts_promo: true })
  const before = await cashOf(seller)
  t.equal((await invoke(promoOnly, 'weather-now', { city: 'Rome' })).status, 200)
  t.equal(await cashOf(seller), before, 'the share of the builder stays promotional')
  await patch('weather-now', { accepts_promo: false })
})

t.test('the budget of a task refuses a call', async (t) => {
  const task = await ask('POST', '/api/task/start', {
    key: buyer.key,
    json: { name: 'x', budget_usdc: 0.015 },
  })
  const inTask = { 'x-task-id': task.body.task_id }
  t.equal((await invoke(buyer, 'weather-now', { city: 'Rome' }, inTask)).status, 200)
  t.match(await invoke(buyer, 'weather-now', { city: 'Rome' }, inTask), {
    status: 402,
    body: { code: 'task_budget_exceeded' },
  })
})

t.test('MCP says whose words an answer has', async (t) => {
  const call = { name: 'weather-now', arguments: { city: 'Rome' } }
  const mcp = await ask('POST', '/mcp?community=1', {
    key: buyer.key,
    json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: call },
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
    },
  })
  t.match(mcp.body['result'], {
    structuredContent: { celsius: 21.5 },
    content: [{}, { text: /^The answer comes from a community tool by .*, not verified: data/ }],
    _meta: { 'gas/call': { mode: 'community' } },
  })
})

t.test('catalogues show it, and models only if they ask', async (t) => {
  const listing = (await ask('GET', '/api/tools')).body
  const entry = (listing['tools'] as { slug: string }[]).find(({ slug }) => slug === 'weather-now')
  t.match(entry, {
    type: 'community',
    state: 'probation',
    accepts_promo: false,
    builder: { name: 'an unnamed agent', agent_id: undefined, verified: false },
    input_schema: undefined,
    output_schema: undefined,
    example_calls: undefined,
  })
  t.match((await ask('GET', '/api/tools/weather-now')).body, {
    input_schema: {
      ...WEATHER_SCHEMAS.input_schema,
      properties: {
        city: {
          type: 'string',
          maxLength: 40,
          description: 'Must match ^[A-Z]',
          pattern: undefined,
        },
      },
    },
  })
  t.equal(listing['total'], Number(listing['native_count']) + Number(listing['community_count']))
  const names = async (query: string) => (await ask('GET', `/api/tools?format=mcp${query}`)).text
  t.notMatch(await names(''), /weather-now/)
  t.match(await names('&community=1'), /Community tool by .*not verified/)
  t.match((await ask('GET', '/api/tools/weather_now')).body, { slug: 'weather-now' })
  for (const path of ['/llms.txt', '/llms-full.txt', '/skill.md', '/.well-known/agent-card.json'])
    t.notMatch((await ask('GET', path)).text, /weather-now/, `${path} speaks for the station`)
  for (const path of ['/api/store', '/mech/metadata'])
    t.match((await ask('GET', path)).text, /Community tool by [^.]*not verified/, path)
})

t.test('the OpenAPI document has an operation for it, if asked', async (t) => {
  const properties = { place: { $ref: '#/$defs/place' } }
  const place = { type: 'string', description: 'Where to measure.' }
  const input_schema = { type: 'object', properties, $defs: { place } }
  await open('weather-there', '/weather', { input_schema, example: { place: 'Rome' } })
  const { body: plain } = await ask('GET', '/openapi.json')
  t.notOk('/api/t/weather-there' in (plain['paths'] as object))
  const { body: document } = await ask('GET', '/api/openapi.json?community=1')
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  t.ok(valid, JSON.stringify(errors))
  const paths = document['paths'] as Record<string, { post: object }>
  t.match(paths['/api/t/weather-there']?.post, {
    operationId: 'callCommunityWeatherThere',
    description: /^\[Community tool by .*, not verified\. .* Costs 0\.01 USDC\.$/,
    'x-payment-info': { price: { mode: 'fixed', amount: '0.010000' } },
    'x-tool': { slug: 'weather-there', verified: false },
    // With a key, or without one for a payment.
    security: [{}, { ApiKey: [] }, { Bearer: [] }],
    requestBody: { content: { 'application/json': { example: { place: 'Rome' } } } },
  })
  const misfitOf = createOpenApiBodyValidator(document)
  const input = '#/components/schemas/CommunityWeatherThereInput'
  t.equal(misfitOf(input, { place: 'Rome' }), '')
  t.match(misfitOf(input, { place: 5 }), /must be string/)
  t.match(JSON.stringify(document), /\[by [^\]]*, not verified\] Where to measure\./)
  const call = await ask('POST', '/api/t/weather-there', { key: buyer.key, json: { place: 'R' } })
  t.equal(misfitOf('#/components/schemas/CommunityWeatherThereReply', call.body), '', call.text)
})

t.test('input that the builder refuses is refunded and does not count', async (t) => {
  builder.on('/picky', (_, reply) => {
    reply.writeHead(422, { 'content-type': 'application/problem+json' })
    reply.end(JSON.stringify({ title: 'no', detail: 'There is no\n\u202esuch city.' }))
  })
  await open('picky-one', '/picky')
  t.match(await invoke(buyer, 'picky-one', { city: 'Atlantis' }), {
    status: 422,
    body: { code: 'builder_refused', refunded: true, detail: /There is no such city\./ },
  })
  const rows =
    await station.sql`select counted, refused, error_code from community_tool_calls where slug = 'picky-one'`
  t.match([...rows], [{ counted: false, refused: true, error_code: 'builder_refused' }])
  for (let call = 1; call < 20; call += 1) await invoke(buyer, 'picky-one', { city: 'Atlantis' })
  t.match(await invoke(buyer, 'picky-one', { city: 'Atlantis' }), { status: 429 })
})

t.test('after five failures calls are refused until the example works', async (t) => {
  let works = false
  builder.on('/flaky', (_, reply) => sendJson(reply, { celsius: 1 }, works ? 200 : 500))
  await open('flaky-one', '/flaky')
  for (let call = 0; call < 5; call += 1)
    t.equal((await invoke(buyer, 'flaky-one', { city: 'Rome' })).status, 502)
  const refused = await invoke(buyer, 'flaky-one', { city: 'Rome' })
  t.match(refused, { status: 503, body: { code: 'tool_unavailable' } })
  t.ok(refused.body.retry_after > 0)
  works = true
  const proven = await patch('flaky-one', { endpoint_url: builder.url('/flaky') })
  t.equal(proven.status, 200, 'a new proof starts over')
  t.equal((await invoke(buyer, 'flaky-one', { city: 'Rome' })).status, 200)
})

t.test('the builder tries its tool for nothing, and other addresses count', async (t) => {
  const before = await station.balance(seller)
  const own = await invoke(seller, 'weather-now', { city: 'Rome' })
  t.match(own, { status: 200, body: { _meta: { cost_usdc: 0, waived: 'own_tool' } } })
  t.equal(await station.balance(seller), before)
  const dear = { price_per_call_usdc: 5 }
  t.match(await register(seller, { ...tool('opera-seat'), ...dear }), { status: 201 })
  const free = { _meta: { cost_usdc: 0, waived: 'own_tool' } }
  const tried = await invoke(seller, 'opera-seat', { city: 'Rome' })
  t.match(tried, { status: 200, body: free }, 'also one that costs more than it has')
  t.match(await invoke(seller, 'opera-seat', { city: 'Rome', dry_run: true }), {
    body: { price_usdc: 0, would_refuse: null },
  })
  await invoke(buyer, 'weather-now', { city: 'Rome' }, TOOL_BUILDER_IP_HEADERS)
  const [counts] = await station.sql<{ own: boolean; near: boolean; far: boolean }[]>`
    select bool_or(counted) filter (where payer = ${seller.id}) as own,
           (array_agg(counted order by at desc))[1] as near,
           bool_or(counted) filter (where payer = ${buyer.id}) as far
      from community_tool_calls where slug = 'weather-now'`
  t.strictSame({ ...counts }, { own: false, near: false, far: true })
})

t.test('each builder knows a caller by another name', async (t) => {
  const rival = await station.onboard()
  await open('rival-weather', '/weather', {}, rival)
  const nameAt = async (slug: string) => {
    await invoke(buyer, slug, { city: 'Rome' })
    return builder.received.at(-1)?.headers['x-caller']
  }
  const [one, again, other] = [
    await nameAt('weather-now'),
    await nameAt('weather-now'),
    await nameAt('rival-weather'),
  ]
  t.equal(one, again)
  t.not(one, other)
})

t.test('changes keep what callers rely on', async (t) => {
  t.match(await patch('weather-now', { price_per_call_usdc: 0.05 }), {
    status: 200,
    body: { price_per_call_usdc: 0.01, next_price: { price_usdc: 0.05 } },
  })
  t.match(await invoke(buyer, 'weather-now', { city: 'Rome' }), {
    body: { _meta: { cost_usdc: 0.01 } },
  })
  t.match(await patch('weather-now', { price_per_call_usdc: 0.005 }), {
    body: { price_per_call_usdc: 0.005, next_price: null },
  })
  t.match(await invoke(buyer, 'weather-now', { city: 'Rome' }), {
    body: { _meta: { cost_usdc: 0.005 } },
  })
  const stricter = { ...WEATHER_SCHEMAS.input_schema, required: ['city', 'day'] }
  t.match(await patch('weather-now', { input_schema: stricter }), {
    status: 400,
    body: { errors: [{ pointer: '/input_schema/required' }] },
  })
  const properties = { ...WEATHER_SCHEMAS.input_schema.properties, day: { type: 'string' } }
  const wider = { ...WEATHER_SCHEMAS.input_schema, properties }
  t.equal((await patch('weather-now', { input_schema: wider })).status, 200)
  t.equal((await invoke(buyer, 'weather-now', { city: 'Rome', day: 'today' })).status, 200)
  const rotated = await patch('weather-now', { rotate_secret: true })
  t.match(rotated.body['signing_secret'], /^whsec_/)
  t.not(rotated.body['signing_secret'], secret)
})

t.test('the operator reviews it, and its builder retires it', async (t) => {
  const submit = (who: TestAgent, slug: string) =>
    ask('POST', '/api/builder/submit', { key: who.key, json: { slug } })
  t.match(await submit(buyer, 'weather-now'), { status: 403 })
  t.match(await submit(seller, 'weather-now'), { status: 200, body: { verification: 'asked' } })
  const retire = (who: TestAgent) =>
    ask('DELETE', '/api/tools/weather-now', { key: who.key, headers: TOOL_BUILDER_IP_HEADERS })
  t.equal((await retire(buyer)).status, 403)
  t.match(await retire(seller), { status: 200, body: { status: 'retired' } })
  t.equal((await retire(seller)).status, 200)
  t.match(await invoke(buyer, 'weather-now', { city: 'Rome' }), {
    status: 410,
    body: { code: 'tool_retired' },
  })
  t.match(await register(buyer, tool('weather-now')), { status: 409 })
  t.notMatch((await ask('GET', '/api/tools/weather-now')).text, /"available":true/)
})

t.test('the ledger adds up', async () => station.verify())
