import { connect } from 'node:net'
import t from 'tap'
import type { TestRequestOptions } from '../../support/http/test-http-client.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  createWriteRouteFixtures,
  PAID_CALL_BODY,
} from '../../support/agents/write-route-fixtures.ts'
import { BOUNDS } from '../../../core/validation/request-fields.ts'
import {
  writeRouteCases,
  countRowsWrittenByRequests,
  assertProblemNamesCause,
} from '../../support/write-routes/write-route-cases.ts'
import { type RequestFields } from '../../support/write-routes/write-route-case-shape.ts'

const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

const SPOILT = {
  amounts: [
    null,
    'NaN',
    '0.01',
    '1e-7',
    -1,
    -0.01,
    0,
    1e21,
    1.7e308,
    0.1234567,
    true,
    [],
    {},
    [0.01],
  ],
  texts: [null, 5, true, [], {}, 'x'.repeat(30_000), 'a\u0000b', '\ud800'],
  lists: [null, 5, 'x', true, {}, [null], [5], [[]]],
  objects: [null, 5, 'x', true, [], { surprise: 1 }],
  wholes: [null, 'x', '5', 1.5, -1, 0, 1e21, true, [], {}],
} as const

/** Bodies that no route takes. */
const RAW: [string, string | Buffer][] = [
  ['half of an object', '{"name": '],
  ['NaN', '{"amount_usdc": NaN}'],
  ['a comment', '{} // x'],
  ['a list', '[]'],
  ['a text', '"x"'],
  ['a number', '5'],
  ['beyond doubles', '{"x": 1e999}'],
  ['deep lists', `{"x": ${nested(100)}}`],
  ['very deep lists', `{"x": ${nested(60_000)}}`],
  ['__proto__', '{"__proto__": {"isAdmin": true}}'],
  ['a hidden __proto__', '{"x": {"\\u005f_proto__": {"isAdmin": true}}}'],
  ['constructor.prototype', '{"constructor": {"prototype": {"isAdmin": true}}}'],
  ['bytes that are no UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d])],
  ['300 KiB', JSON.stringify({ name: 'x'.repeat(300 * 1024) })],
]

const TYPES = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/xml',
  'multipart/form-data; boundary=x',
  'application/json; charset=utf-16',
  'application/jsonp',
  'application/json/x',
]

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, BodySchema>> }
}
interface Operation {
  readonly requestBody?: {
    readonly content?: { readonly 'application/json'?: { readonly schema?: BodySchema } }
  }
}
interface BodySchema {
  readonly $ref?: string
  readonly required?: readonly string[]
}

function requiredFields({ paths, components }: OpenApi, route: string): readonly string[] {
  const [method = '', path = ''] = route.split(' ')
  const body = paths[path]?.[method.toLowerCase()]?.requestBody
  const schema = body?.content?.['application/json']?.schema
  const named = schema?.$ref?.split('/').at(-1)
  return (named === undefined ? schema : components.schemas[named])?.required ?? []
}

t.test('every write route rejects invalid input', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const table = writeRouteCases(await createWriteRouteFixtures(main, her))
  const { body: document } = await main.ask('GET', '/openapi.json')
  /** Null for another field is absence: decision 400. */
  const refusesNull = (route: string, field: string) =>
    BOUNDS.has(field) || requiredFields(document as unknown as OpenApi, route).includes(field)

  t.test('the table below contains every write route', async (t) => {
    const { body } = await main.ask('GET', '/openapi.json')
    const routes = Object.entries(body['paths'] as Record<string, object>).flatMap(
      ([path, methods]) =>
        // Addresses of single tools are those of one route, with a slug; MCP has errors of its own.
        Object.keys(/^\/api\/t\/\w|mcp$/.test(path) ? {} : methods)
          .filter((method) => method !== 'get')
          .map((method) => `${method.toUpperCase()} ${path}`),
    )
    t.strictSame(routes.sort(), Object.keys(table).sort())
  })

  for (const [name, one] of Object.entries(table)) {
    const {
      path,
      method = 'POST',
      body,
      status = 200,
      anonymousAllowed = false,
      notRepeatable = false,
    } = one
    t.test(name, async (t) => {
      const before = await countRowsWrittenByRequests(main)
      const ask = (asked: TestRequestOptions) => main.ask(method, path, { key: her.key, ...asked })
      if (body !== undefined) {
        for (const field of ['amounts', 'texts', 'lists', 'objects', 'wholes'] as const) {
          for (const spoilt of one[field] ?? []) {
            for (const value of SPOILT[field]) {
              if (value === null && (spoilt === 'cap_usdc' || !refusesNull(name, spoilt))) continue
              if (spoilt === 'grace_seconds' && value === 0) continue
              if (spoilt === 'hosts' && JSON.stringify(value) === '[]') continue
              if (name.endsWith('quote') && spoilt === 'tool' && typeof value === 'string') continue
              const wanted = `${spoilt} = ${JSON.stringify(value)?.slice(0, 40)}`
              const answer = await ask({ json: { ...body, [spoilt]: value } })
              assertProblemNamesCause(t, answer, wanted, answer.status === 404 ? undefined : spoilt)
            }
          }
        }
        const required = [
          'name',
          'agents',
          'tool',
          'calls',
          'to_agent_id',
          'amount_usdc',
          'budget_usdc',
          'agent_name',
          'secret',
          'key',
          'title',
          'reward_usdc',
          'content',
        ]
        const optional =
          {
            '/api/keys': ['name'],
            '/api/credits/topup': ['amount_usdc'],
            '/api/backpack/create': ['agent_name'],
          }[path] ?? []
        for (const missing of required.filter(
          (field) => field in body && !optional.includes(field),
        )) {
          const { [missing]: _gone, ...rest } = body
          assertProblemNamesCause(t, await ask({ json: rest }), `without ${missing}`, missing)
        }
        if (name !== 'POST /api/agent/plan') {
          const answer = await ask({ json: { ...body, surprise: 1 } })
          assertProblemNamesCause(t, answer, 'an unknown field', 'surprise')
        }
        for (const [what, raw] of RAW) assertProblemNamesCause(t, await ask({ raw }), what)
        for (const type of TYPES) {
          const answer = await ask({ raw: JSON.stringify(body), headers: { 'content-type': type } })
          t.equal(answer.status, 415, type)
          assertProblemNamesCause(t, answer, type)
        }
      }
      for (const key of anonymousAllowed
        ? []
        : [undefined, '', 'x', 'gas_', `${her.key.slice(0, -1)}!`, 'x'.repeat(9_000)]) {
        const answer = await main.ask(method, path, {
          ...(key === undefined ? {} : { headers: { 'x-api-key': key } }),
          ...(body === undefined ? {} : { json: body }),
        })
        t.match(answer, { status: 401, headers: { 'www-authenticate': 'Bearer' } })
        assertProblemNamesCause(t, answer, `the key ${key?.slice(0, 10)}`)
      }
      if (!path.includes('onboard') && !path.includes('register') && !notRepeatable) {
        const headers = { authorization: 'Bearer other' }
        const two = await ask({ ...(body === undefined ? {} : { json: body }), headers })
        t.match(two, { status: 400, body: { code: 'conflicting_credentials' } })
      }
      for (const key of ['', 'a b', 'é', 'x'.repeat(256)].map((text) =>
        Buffer.from(text).toString('latin1'),
      )) {
        const answer = await ask({
          ...(body === undefined ? {} : { json: body }),
          headers: { 'idempotency-key': key },
        })
        if (!name.endsWith('quote') && !notRepeatable)
          assertProblemNamesCause(
            t,
            answer,
            `the Idempotency-Key "${key.slice(0, 9)}"`,
            'idempotency-key',
          )
      }
      if (!name.endsWith('quote'))
        t.strictSame(await countRowsWrittenByRequests(main), before, 'nothing was moved')
      const served = await ask(body === undefined ? {} : { json: body })
      t.equal(served.status, status, `what is right is served: ${served.text.slice(0, 200)}`)
    })
  }
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

/** Sends a head and as much of a body as the server wants to read. */
function flood(url: string, path: string, key: string, framing: string): Promise<string> {
  const { port, hostname } = new URL(url)
  const chunk = Buffer.alloc(65_536, 0x20)
  const chunked = framing.startsWith('transfer-encoding')
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    let answer = ''
    let sent = 0
    const push = () => {
      while (answer === '' && sent < 30_000_000 && !socket.destroyed) {
        sent += chunk.length
        if (chunked) socket.write(`${chunk.length.toString(16)}\r\n`)
        const room = socket.write(chunk)
        if (chunked) socket.write('\r\n')
        if (!room) return
      }
    }
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\ncontent-type: application/json\r\n${framing}\r\n\r\n`,
    )
    socket.on('drain', push)
    socket.on('data', (data) => (answer += data.toString()))
    socket.on('error', () => {})
    socket.on('close', () => resolve(answer))
    push()
  })
}

t.test('a body of 30 MB is rejected before it is read', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const before = await countRowsWrittenByRequests(main)
  for (const path of ['/api/refuel', '/api/agent/send', '/api/onboard', '/api/pipeline']) {
    for (const framing of ['content-length: 30000000', 'transfer-encoding: chunked']) {
      const answer = await flood(main.url, path, her.key, framing)
      t.match(answer, /^HTTP\/1\.1 413 [^]*"code":"body_too_large"/, `${path} ${framing}`)
    }
  }
  t.strictSame(await countRowsWrittenByRequests(main), before)
  t.equal((await main.call(her, 'hive_trending')).status, 200, 'and the service goes on')
})

t.test('a call names its invalid input', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const before = await countRowsWrittenByRequests(main)
  const wrong: [string, RequestFields, number, string][] = [
    ['an unknown tool', { tool: 'teleport' }, 404, 'unknown_tool'],
    ['a tool named like a method', { tool: 'constructor' }, 404, 'unknown_tool'],
    ['a tool named __proto__', { tool: '__proto__' }, 404, 'unknown_tool'],
    ['params that are a list', { tool: 'hive_trending', params: [] }, 400, 'invalid_input'],
    ['an unknown field', { tool: 'hive_trending', price: 0 }, 400, 'invalid_input'],
    ["a balance of one's own", { tool: 'hive_trending', balance: 9 }, 400, 'invalid_input'],
    ['a missing field', { tool: 'agent_ping', message: 'x' }, 400, 'invalid_input'],
    ['a text where a number belongs', { tool: 'hive_trending', limit: '3' }, 400, 'invalid_input'],
    [
      'a wrong type below params',
      { tool: 'hive_trending', params: { limit: [] } },
      400,
      'invalid_input',
    ],
    ['dry_run that is a text', { tool: 'hive_trending', dry_run: 'yes' }, 400, 'invalid_input'],
    ['too short a text', { tool: 'hive_write', content: 'short' }, 400, 'invalid_input'],
    ['no address', { tool: 'data_retrieval', url: 'nowhere' }, 400, 'invalid_input'],
    ['a file', { tool: 'data_retrieval', url: 'file:///etc/passwd' }, 422, 'blocked_url'],
    [
      'an inner address',
      { tool: 'data_retrieval', url: 'http://169.254.169.254/' },
      422,
      'blocked_url',
    ],
    [
      'this very service',
      { tool: 'data_retrieval', url: `${main.url}/metrics` },
      422,
      'blocked_url',
    ],
  ]
  for (const [what, json, status, code] of wrong) {
    for (const path of ['/api/refuel', '/api/refuel/stream', '/api/quote']) {
      const answer = await main.ask('POST', path, { key: her.key, json })
      t.match(
        answer,
        { status, body: { code } },
        `${what} at ${path}: ${answer.text.slice(0, 200)}`,
      )
      assertProblemNamesCause(t, answer, what)
    }
    const batch = await main.ask('POST', '/api/pipeline', { key: her.key, json: { calls: [json] } })
    if (what.startsWith('params')) t.match(batch, { status: 400 })
    else if (what.startsWith('dry_run')) assertProblemNamesCause(t, batch, what, '/calls/0/dry_run')
    else {
      const results = [{ ok: false, cost_usdc: 0, error: { status, code } }]
      t.match(batch, { status: 200, body: { ok: false, total_cost_usdc: 0, results } }, what)
    }
  }
  for (const headers of [
    { 'x-task-id': 'a b' },
    { 'x-task-id': 'x'.repeat(65) },
    { 'x-backpack-id': "bp_' or 1=1" },
    { 'x-ghost-mode': 'loud' },
  ]) {
    const [header = ''] = Object.keys(headers)
    const answer = await main.call(her, 'hive_trending', {}, headers)
    t.match(answer, { status: 400, body: { errors: [{ pointer: `/headers/${header}` }] } })
  }
  for (const calls of [[], Array.from({ length: 11 }, () => PAID_CALL_BODY), [{}], [{ tool: 5 }]]) {
    assertProblemNamesCause(
      t,
      await main.ask('POST', '/api/pipeline', { key: her.key, json: { calls } }),
      'calls',
      '/calls',
    )
  }
  t.match(await main.ask('PUT', '/api/refuel', { key: her.key }), {
    status: 405,
    headers: { allow: /POST/ },
  })
  t.match(await main.ask('POST', '/api/nothing', { key: her.key }), { status: 404 })
  t.match(await main.ask('GET', '/api/task/%00'), { status: 401 })
  t.match(await main.ask('GET', '/api/task/%E0%A4%A', { key: her.key }), { status: 400 })
  t.strictSame(await countRowsWrittenByRequests(main), before, 'nothing was moved')
  t.equal(await main.balance(her), 0.5)
  await main.verify()
})
