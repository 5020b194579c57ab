import t, { type Test } from 'tap'
import { newApiKey } from '../../../core/ids-and-api-keys.ts'
import { createWriteRouteFixtures } from '../../support/agents/write-route-fixtures.ts'
import { connectWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import {
  callMcpTool,
  MCP_TEST_PROTOCOL_VERSIONS,
  problemOfRefusedMcpCall,
} from '../../support/mcp/mcp-test-client.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { writeRouteCases } from '../../support/write-routes/write-route-cases.ts'

type Headers = Record<string, string>

/** Free for anybody without a key; the others have a price. */
const FREE = { tool: 'hive_read', query: 'x' }
const PAID = { tool: 'hive_trending' }
const PAID_READS: Headers = {
  'GET /api/hive/read': '/api/hive/read?query=x',
  'GET /api/vault/query': '/api/vault/query?q=x',
}

/** Every kind of bad key, as headers. */
async function badKeys(main: InProcessStation, { key: owner }: TestAgent) {
  const made = async (json: object) =>
    (await main.ask('POST', '/api/keys', { key: owner, json })).body
  const [revoked, expired, rotated] = [await made({}), await made({}), await made({})]
  await main.ask('DELETE', `/api/keys/${String(revoked['id'])}`, { key: owner })
  await main.sql`update api_keys set expires_at = now() - interval '1 hour' where id = ${String(expired['id'])}`
  const rotation = { key_id: rotated['id'], grace_seconds: 0 }
  await main.ask('POST', '/api/keys/rotate', { key: owner, json: rotation })
  const last = owner.at(-1) === 'x' ? 'y' : 'x'
  const kinds = {
    'no prefix': owner.slice('gas_'.length),
    malformed: 'gas_x',
    'bad checksum': `${owner.slice(0, -1)}${last}`,
    unknown: newApiKey(),
    revoked: revoked.api_key,
    expired: expired.api_key,
    'rotated out': rotated.api_key,
    empty: '',
  }
  const sent: [name: string, headers: Headers][] = Object.entries(kinds).flatMap(([name, key]) => [
    [name, { 'x-api-key': key }],
    [`${name}, as a bearer`, { authorization: `Bearer ${key}` }],
  ])
  sent.push(['a good key without its scheme', { authorization: owner }])
  sent.push(['a good key with another scheme', { authorization: `Token ${owner}` }])
  return { kinds, sent }
}

/** The operations that take a key, each with a request that would succeed with a good one. */
async function keyedOperations(main: InProcessStation, owner: TestAgent) {
  const cases = writeRouteCases(await createWriteRouteFixtures(main, owner))
  const { body } = await main.ask('GET', '/openapi.json')
  const paths = body['paths'] as Record<string, Record<string, Operation>>
  return Object.entries(paths)
    .filter(([path]) => !/^\/api\/t\/\w/.test(path))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([name, { security = [], tags = [] }]) => {
        const method = name.toUpperCase()
        const known = cases[`${method} ${path}`]
        const bare = PAID_READS[`${method} ${path}`] ?? path.replace(/\{\w+\}/g, 'x')
        return {
          method,
          path: known?.path ?? bare,
          json: known?.body,
          isKeyed: tags[0] !== 'mcp' && security.some((way) => 'ApiKey' in way),
        }
      }),
    )
    .filter(({ isKeyed }) => isKeyed)
}

interface Operation {
  readonly security?: readonly object[]
  readonly tags?: readonly string[]
}

t.test('a bad key is refused on every door', async (t) => {
  const main = await startInProcessTestStation(t)
  const owner = await main.onboard()
  const { kinds, sent } = await badKeys(main, owner)
  const other = await main.onboard()

  t.test('by every operation that takes a key', async (t) => {
    const operations = await keyedOperations(main, owner)
    t.ok(operations.length > 120, `${operations.length} operations`)
    for (const { method, path, json } of operations) {
      const body = method === 'GET' ? {} : { json: json ?? {} }
      for (const [name, headers] of sent) {
        const { status, body: problem } = await main.ask(method, path, { headers, ...body })
        const { code, key_status: keyStatus } = problem
        const right =
          keyStatus === 'invalid' &&
          ((status === 401 && code === 'unauthenticated') ||
            (status === 402 && code === 'payment_required'))
        if (!right) t.fail(`${method} ${path}, ${name}: ${status} ${code}`)
      }
      const both = { 'x-api-key': owner.key, authorization: `Bearer ${other.key}` }
      const { status, body: problem } = await main.ask(method, path, { headers: both, ...body })
      t.match({ status, problem }, { status: 400, problem: { code: 'conflicting_credentials' } })
    }
  })

  t.test('by every way to call a tool: 402 where it has a price, else 401', (t) =>
    callsAreRefused(t, main, sent),
  )

  t.test('over MCP', async (t) => {
    for (const [name, headers] of sent)
      for (const era of MCP_TEST_PROTOCOL_VERSIONS) {
        const free = await callMcpTool(main, FREE.tool, { query: 'x' }, { era, headers })
        t.match(problemOfRefusedMcpCall(free), { status: 401, key_status: 'invalid' }, name)
        const paid = await callMcpTool(main, PAID.tool, {}, { era, headers })
        t.match(problemOfRefusedMcpCall(paid), { status: 402, key_status: 'invalid' }, name)
      }
  })

  t.test('over WebSocket, in the upgrade and in the first frame', async (t) => {
    for (const [name, headers] of sent) {
      const options = { headers: { ...headers } }
      await t.rejects(connectWebSocket(t, main.url, { options }), /401/, name)
    }
    for (const [name, key] of Object.entries({ ...kinds, other: other.key })) {
      const given = name === 'other' ? { key: owner.key } : {}
      const client = await connectWebSocket(t, main.url, given)
      client.send({ type: 'hello', api_key: key })
      t.ok([4400, 4401].includes(await client.closed), name)
      if (name !== 'other') t.notOk(client.frames.some(({ type }) => type === 'ready'))
    }
  })

  t.test('the answer kept for the address of a caller without a key is not theirs', async (t) => {
    const headers = { 'idempotency-key': 'visitor-1' }
    const first = await main.ask('POST', '/api/refuel', { json: FREE, headers })
    t.equal(first.status, 200)
    const bad = { ...headers, 'x-api-key': kinds.unknown }
    const again = await main.ask('POST', '/api/refuel', { json: FREE, headers: bad })
    t.match(again, { status: 401, body: { key_status: 'invalid' } })
  })

  await main.verify()
})

async function callsAreRefused(
  t: Test,
  main: InProcessStation,
  sent: readonly [string, Headers][],
): Promise<void> {
  const doors: readonly [path: string, wrap: (call: { tool: string }) => object][] = [
    ['/api/refuel', (call) => call],
    ['/api/refuel/stream', (call) => call],
    ['/api/pipeline', (call) => ({ calls: [call, call] })],
    ['/api/refuel/stream', (call) => ({ tool: 'pipeline', calls: [call, call] })],
    ['/mech/request', ({ tool, ...input }) => ({ tool, prompt: JSON.stringify(input) })],
    [`/api/t/:slug`, ({ tool: _tool, ...input }) => input],
    [`/api/tools/:slug/invoke`, ({ tool: _tool, ...input }) => input],
  ]
  for (const [path, wrap] of doors)
    for (const [name, headers] of sent)
      for (const [call, status] of [
        [FREE, 401],
        [PAID, 402],
      ] as const) {
        const address = path.replace(':slug', call.tool)
        const answer = await main.ask('POST', address, { headers, json: wrap(call) })
        const about = `${address} ${call.tool}, ${name}: ${answer.text.slice(0, 200)}`
        t.match(answer, { status, body: { key_status: 'invalid' } }, about)
      }
}
