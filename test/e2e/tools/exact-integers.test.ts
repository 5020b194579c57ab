import t from 'tap'
import { WebSocket } from 'ws'
import { parseExactJson, toExactJson } from '../../../core/json/exact.ts'
import { MCP_TEST_PROTOCOL_VERSIONS, toMcpTestMessage } from '../../support/mcp/mcp-test-client.ts'
import { startTestCommunityToolMarket } from '../../support/tools/test-community-tool-market.ts'
import { sendJson } from '../../support/tools/test-tool-builder-server.ts'

/** One document with integers beyond 2^53 through every door: its digits leave as they came. */

const NUMERALS = '{"wei":1000000000000000001,"ids":[-9007199254740993,18446744073709551615]'
const DOCUMENT = `${NUMERALS},"round":1000000000000000000000,"text":"1000000000000000001\\"","n":7}`
const OBJECT = { type: 'object' }
const OPENAPI = {
  openapi: '3.1.0',
  info: { title: 'Wei', version: '1' },
  paths: {
    '/wei.json': {
      get: {
        operationId: 'wei',
        responses: {
          200: { description: '', content: { 'application/json': { schema: OBJECT } } },
        },
      },
    },
  },
}
const SCHEMA = {
  input_schema: OBJECT,
  example: {},
  output_schema: {
    type: 'object',
    properties: { wei: { type: 'integer', minimum: 1 }, ids: { items: { type: 'number' } } },
    required: ['wei'],
  },
}

t.test('integers keep their digits in memory and in text', async (t) => {
  const odd = '{"__proto__":{"a":9007199254740993},"b":[1.5,{"c":-9007199254740992}],"d":"\\\\"}'
  for (const text of [DOCUMENT, odd, '12345678901234567890', '[]', '"9007199254740993"'])
    t.equal(toExactJson(parseExactJson(text)), text)
  t.match(parseExactJson(DOCUMENT), { wei: 1_000_000_000_000_000_001n, n: 7 })
  t.equal(parseExactJson(`${'9'.repeat(309)}`), Infinity, 'as 1e400: no double holds it')
  t.equal(toExactJson(parseExactJson('[0.12345678901234567890]')), '[0.12345678901234568]')
  const deep = `${'['.repeat(50_000)}9007199254740993${']'.repeat(50_000)}`
  t.doesNotThrow(() => parseExactJson(deep), 'however deep it is')
  const cycle: Record<string, unknown> = { n: 1n }
  cycle['self'] = cycle
  t.throws(() => toExactJson(cycle), TypeError)
})

t.test('digits of strangers leave as they came', async (t) => {
  const OPERATOR_TOKEN = 'o'.repeat(32)
  const market = await startTestCommunityToolMarket(t, {}, { OPERATOR_TOKEN })
  const { builder, seller, buyer, station } = market
  const { ask } = station
  builder.on('/wei.json', (_, reply) => sendJson(reply, DOCUMENT))
  builder.on('/wei', (_, reply) => sendJson(reply, DOCUMENT))
  builder.on('/openapi.json', (_, reply) => sendJson(reply, OPENAPI))
  builder.on('/huge.json', (_, reply) => sendJson(reply, '{"n":1e400}'))
  builder.on('/mcp', ({ body }, reply) => {
    const { id, method } = JSON.parse(body) as { id?: number; method: string }
    if (id === undefined) return void reply.writeHead(202).end()
    const maximum = '18446744073709551615'
    const results: Record<string, string> = {
      initialize: '{"protocolVersion":"2025-06-18","serverInfo":{"name":"Chain","version":"1"}}',
      'tools/list': `{"tools":[{"name":"wei","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":${maximum}}}}}]}`,
    }
    const called = `{"content":[{"type":"text","text":"1"}],"structuredContent":${DOCUMENT}}`
    sendJson(reply, `{"jsonrpc":"2.0","id":${id},"result":${results[method] ?? called}}`)
  })
  const importing = async (json: object) => {
    const made = await ask('POST', '/api/tools/import', {
      key: seller.key,
      headers: { 'x-operator-token': OPERATOR_TOKEN },
      json: { price_per_call_usdc: 0.01, ...json },
    })
    t.equal(made.status, 201, made.text)
    return String((made.body['tools'] as { slug: string }[])[0]?.slug)
  }
  await market.open('wei-tool', '/wei', SCHEMA)
  const calls: Record<string, object> = {
    data_retrieval: { url: builder.url('/wei.json') },
    'wei-tool': {},
    [await importing({ openapi_url: builder.url('/openapi.json') })]: {},
    [await importing({ mcp_url: builder.url('/mcp') })]: {},
  }
  const { key } = buyer
  const exact = (name: string, text: string) => {
    t.ok(text.includes(NUMERALS), `${name}: ${text.slice(0, 300)}`)
    t.ok(text.includes('"round":1000000000000000000000,'), name)
  }
  for (const [tool, fields] of Object.entries(calls)) {
    const json = { tool, ...fields }
    const headers = { 'idempotency-key': `exact-${tool}` }
    const first = await ask('POST', '/api/refuel', { key, headers, json })
    const again = await ask('POST', '/api/refuel', { key, headers, json })
    exact(`${tool} first`, first.text)
    t.equal(again.headers['idempotency-replayed'], 'true')
    t.equal(again.text, first.text, `${tool}: the repeat has the same bytes`)
    exact(`${tool} stream`, (await ask('POST', '/api/refuel/stream', { key, json })).text)
    const batch = await ask('POST', '/api/pipeline', { key, json: { calls: [json] } })
    exact(`${tool} pipeline`, batch.text)
    for (const era of MCP_TEST_PROTOCOL_VERSIONS) {
      const message = toMcpTestMessage('tools/call', { name: tool, arguments: fields }, { era })
      const { text } = await ask('POST', '/mcp?community=1', { key, ...message })
      exact(`${tool} MCP ${era}`, text)
      const { content } = (JSON.parse(text) as { result: { content: { text: string }[] } }).result
      exact(`${tool} MCP text`, content[0]?.text ?? '')
    }
    const socket = new WebSocket(`${station.url.replace('http', 'ws')}/api/ws`, ['gas.v1'], {
      headers: { 'x-api-key': key },
    })
    t.teardown(() => socket.terminate())
    exact(
      `${tool} WebSocket`,
      await new Promise<string>((resolve) => {
        socket.on('message', (data) => {
          const text = (data as Buffer).toString()
          if (text.includes('"ready"'))
            socket.send(JSON.stringify({ type: 'refuel', ref: 'r', ...json }))
          if (text.includes('"r"')) resolve(text)
        })
      }),
    )
    socket.close()
  }
  const prompt = JSON.stringify(calls['data_retrieval'])
  const mech = await ask('POST', '/mech/request', { key, json: { tool: 'data_retrieval', prompt } })
  exact('mech', mech.text)
  const huge = await ask('POST', '/api/refuel', {
    key,
    json: { tool: 'data_retrieval', url: builder.url('/huge.json') },
  })
  t.match(huge.body, { data: '{"n":1e400}', parse_error: /too large/ }, 'never null')
  await station.verify()
})
