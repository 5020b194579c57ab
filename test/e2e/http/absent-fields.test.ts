import t from 'tap'
import { readFields } from '../../../core/validation/request-fields.ts'
import { GasStation } from '../../../sdk/index.ts'
import { createOpenAiTools, runOpenAiToolCalls } from '../../../sdk/openai.ts'
import { connectReadyWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const main = await startInProcessTestStation(t)
const guest = await main.onboard()
const { key } = guest
const TOOL = 'hive_trending'

t.test('null for an optional field is absence on every way in', async (t) => {
  const post = (path: string, json: object) => main.ask('POST', path, { key, json })
  for (const [path, json] of [
    ['/api/refuel', { tool: TOOL, limit: null }],
    ['/api/refuel', { tool: TOOL, params: null, query: null, dry_run: null }],
    ['/api/refuel', { tool: TOOL, params: { limit: null } }],
    ['/api/refuel', { tool: TOOL, limit: null, params: { limit: 2 } }],
    [`/api/t/${TOOL}`, { limit: null }],
    ['/api/quote', { tool: TOOL, limit: null }],
    ['/api/pipeline', { calls: [{ tool: TOOL, limit: null, params: null, dry_run: null }] }],
    [
      '/api/task/schedule',
      { tool: TOOL, params: { limit: null }, interval: '5m', budget_usdc: 0.05, name: null },
    ],
    [
      '/api/signal/publish',
      { channel: 'x:y', type: 'ping', payload: { kept: null }, ttl_seconds: null },
    ],
  ] as const) {
    const { status, body } = await post(path, json)
    t.ok(status < 300, `${path} ${JSON.stringify(json)}: ${status} ${JSON.stringify(body)}`)
    if (path === '/api/pipeline') t.match(body, { succeeded: 1 })
  }
  const [signal] = (await main.ask('GET', '/api/signal/recent?channel=x:y', { key })).body[
    'signals'
  ] as { payload: unknown }[]
  t.strictSame(signal?.payload, { kept: null }, 'null is a value where the schema has one')
  const socket = await connectReadyWebSocket(t, main.url, key)
  const called = await socket.ask({ type: 'refuel', tool: TOOL, limit: null, task_id: null })
  t.equal(called.type, 'ack', JSON.stringify(called))
  const subscribed = await socket.ask({ type: 'subscribe', channels: ['a:b'], since: null })
  t.equal(subscribed.type, 'ack', JSON.stringify(subscribed))
})

t.test('null for a required field, and for one that nobody knows, is refused', async (t) => {
  for (const json of [
    { tool: null },
    { tool: TOOL, nonsense: null },
    { tool: 'web_search', query: null },
  ])
    t.equal(
      (await main.ask('POST', '/api/refuel', { key, json })).status,
      400,
      JSON.stringify(json),
    )
})

t.test('MCP takes no arguments in every spelling', async (t) => {
  const send = (message: object) =>
    main.ask('POST', '/mcp', { key, json: { jsonrpc: '2.0', id: 1, ...message } })
  for (const args of [
    {},
    { arguments: null },
    { arguments: '' },
    { arguments: {} },
    { arguments: { limit: null } },
    { _meta: null },
    { _meta: { 'gas/task_id': null, progressToken: null } },
  ]) {
    const { body } = await send({ method: 'tools/call', params: { name: TOOL, ...args } })
    t.notOk(
      (body['result'] as { isError?: boolean } | undefined)?.isError ?? body['error'],
      JSON.stringify(args),
    )
  }
  for (const params of [undefined, null, {}, { cursor: null }, { _meta: null }]) {
    const { body } = await send({ method: 'tools/list', params })
    t.ok((body['result'] as { tools?: unknown } | undefined)?.tools, JSON.stringify(params))
  }
})

t.test('the adapter for OpenAI takes no arguments in every spelling', async (t) => {
  const gas = new GasStation({ url: main.url, apiKey: key })
  for (const text of ['', ' ', 'null', '{}', '{"limit":null}', null, undefined]) {
    const call = {
      id: 'one',
      function: { name: TOOL, ...(text === undefined ? {} : { arguments: text }) },
    }
    const [answer] = await runOpenAiToolCalls(gas, [call])
    t.notMatch(answer?.content, /"error"/, JSON.stringify(text))
  }
  const [tool] = await createOpenAiTools(gas, { only: [TOOL] })
  t.strictSame(tool?.function.parse(''), {})
})

t.test(
  'nulls are left out at any depth where every schema that names the field agrees',
  async (t) => {
    const text = { type: 'string' }
    const schema = {
      properties: {
        list: {
          type: 'array',
          items: { type: 'object', properties: { a: text, b: { type: ['string', 'null'] } } },
        },
        either: {
          anyOf: [
            { properties: { a: text } },
            { properties: { a: text, b: { anyOf: [text, { type: 'null' }] } } },
          ],
        },
        free: {},
        must: text,
      },
      required: ['must'],
    }
    const given = {
      list: [{ a: null, b: null }, { a: '1' }],
      either: { a: null, b: null },
      free: { a: null },
      must: null,
      other: null,
    }
    t.strictSame(readFields(schema, given), {
      list: [{ b: null }, { a: '1' }],
      either: { b: null },
      free: { a: null },
      must: null,
      other: null,
    })
    const clean = { list: [{ a: '1' }] }
    t.equal(readFields(schema, clean), clean, 'nothing is copied without need')
  },
)
