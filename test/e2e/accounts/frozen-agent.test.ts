import t from 'tap'
import { grantCredits } from '../../../app/cli/operator/cli-grant-credits.ts'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../../core/money.ts'
import { createTestPauseGate, type TestPauseGate } from '../../support/actors/test-actor-node.ts'
import {
  createAgentBackpack,
  createBackpackBoundKey,
} from '../../support/agents/test-backpack-bound-keys.ts'
import {
  createWriteRouteFixtures,
  PAID_CALL_BODY,
} from '../../support/agents/write-route-fixtures.ts'
import { connectWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import { callMcpTool, problemOfRefusedMcpCall } from '../../support/mcp/mcp-test-client.ts'
import { createScheduleSlotDriver } from '../../support/schedules/make-schedule-slots-due.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { startFixtureServer } from '../../support/upstreams/fixture-server.ts'
import { writeRouteCases } from '../../support/write-routes/write-route-cases.ts'

/** What an owner does with a frozen agent; every other write is refused. */
const MANAGEMENT = new Set([
  'POST /api/agent/freeze',
  'POST /api/agent/unfreeze',
  'PATCH /api/agent/me',
  'POST /api/agent/set-contact',
  'POST /api/agent/contact-email',
  'POST /api/keys',
  'POST /api/keys/rotate',
  'DELETE /api/keys/{id}',
  'POST /api/backpack/create',
  'PATCH /api/backpack/{id}',
  'POST /api/backpack/{id}/revoke',
  'POST /api/backpack/{id}/renew',
  'DELETE /api/backpack/{id}/keyring',
  'POST /api/webhook/register',
  'POST /api/webhook/test',
  'POST /api/webhook/{id}/rotate',
  'POST /api/webhook/{id}/enable',
  'POST /api/webhook/{id}/deliveries/{delivery}/replay',
  'DELETE /api/webhook/{id}',
  'PATCH /api/task/schedule/{id}',
  'DELETE /api/task/schedule/{id}',
  'POST /api/task/end',
  'POST /api/task/cancel',
  'POST /api/fleet/leave',
  'POST /api/fleet/remove-agent',
  'DELETE /api/bounties/{id}',
  // credits that arrive
  'POST /api/credits/topup',
])
/** Serves anybody, with or without a key, and acts for nobody. */
const OPEN_TO_ALL = new Set(['POST /api/quote', 'POST /mcp', 'POST /hivecast/mcp'])
const FROZEN = { status: 403, body: { code: 'agent_frozen' } }

let gate: TestPauseGate = createTestPauseGate()
gate.open()
const site = await startFixtureServer(t, (_request, response) => {
  void gate.pass().then(() => {
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end('<title>Shop</title><h1>Shop</h1><p>A lamp costs $24.50.</p>')
  })
})
const settings = { SSRF_ALLOW: '127.0.0.1:1024-65535' }
// A charge compares the time of its hold with that of the freeze. Clocks of two nodes differ under load.
const clock = createDatabaseAdjustedClock()
const main = await startInProcessTestStation(t, settings, { clock })
const second = await startInProcessTestStation(t, settings, { database: main.database, clock })

const change = (word: 'freeze' | 'unfreeze', { key }: TestAgent, node = main) =>
  node.ask('POST', `/api/agent/${word}`, { key, json: {} })
const paid = (guest: TestAgent, node = main, headers = {}) =>
  node.call(guest, PAID_CALL_BODY.tool, { limit: 3 }, headers)

t.test('every write of a frozen agent is refused, but for what its owner manages', async (t) => {
  const her = await main.onboard()
  const table = writeRouteCases(await createWriteRouteFixtures(main, her))
  t.match(await change('freeze', her), { status: 200, body: { agent_id: her.id, frozen: true } })
  const { body } = await main.ask('GET', '/openapi.json')
  const operations = Object.entries(body['paths'] as Record<string, Record<string, Operation>>)
    .filter(([path]) => !/^\/api\/t\/\w/.test(path))
    .flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, { security = [] }]) => security.some((way) => 'ApiKey' in way))
        .map(([name]) => ({ method: name.toUpperCase(), path })),
    )
    .filter(({ method, path }) => method !== 'GET' && !OPEN_TO_ALL.has(`${method} ${path}`))
  const refused = operations.filter(({ method, path }) => !MANAGEMENT.has(`${method} ${path}`))
  t.ok(refused.length > 30, `${refused.length} routes`)
  for (const { method, path } of refused) {
    const known = table[`${method} ${path}`]
    if (known === undefined) t.fail(`${method} ${path} has no case`)
    const { key } = her
    const reply = await main.ask(method, known?.path ?? path, { key, json: known?.body ?? {} })
    // A batch and a stream tell it of each call.
    if (path === '/api/pipeline' || path === '/api/refuel/stream')
      t.match(reply.text, /agent_frozen/)
    else t.match(reply, FROZEN, `${method} ${path} ${reply.text}`)
  }
  for (const name of MANAGEMENT) {
    if (name.endsWith('freeze')) continue
    const known = table[name]
    const [method = ''] = name.split(' ')
    const asked = { key: her.key, json: known?.body ?? {} }
    const { text, status } = await main.ask(method, known?.path ?? '', asked)
    t.notMatch(text, /agent_frozen/, name)
    t.ok(status < 500 || status === 503, `${name} ${text}`)
  }
  await main.verify()
})

interface Operation {
  readonly security?: readonly object[]
}

t.test('reads that pay, sockets, MCP and quotes refuse it as well', async (t) => {
  const her = await main.onboard()
  const friend = await main.onboard()
  const socket = await connectWebSocket(t, main.url, { key: her.key })
  const earlier = await paid(her, main, { 'idempotency-key': 'before' })
  await change('freeze', her)
  const { status, body } = await paid(her)
  t.match(
    [status, body],
    [403, { code: 'agent_frozen', agent_id: her.id, remedy: { action: 'ask_owner' } }],
  )
  t.match(body['detail'], /POST \/api\/agent\/unfreeze/, 'it names who can lift it')
  t.match(body['why_url'], /\/api\/why\//, 'and why')
  const again = await paid(her, main, { 'idempotency-key': 'before' })
  t.strictSame([again.status, again.body], [200, earlier.body], 'a paid answer is repeated')
  for (const path of ['/api/hive/read?query=x', '/api/vault/query?q=x'])
    t.match(await main.ask('GET', path, { key: her.key }), FROZEN, path)
  for (const frame of [
    { type: 'refuel', ...PAID_CALL_BODY },
    { type: 'publish', channel: 'a:b', signal_type: 'ping', payload: {} },
    { type: 'pulse', goal_vector: 'x' },
    { type: 'message', to: friend.id, message: 'x' },
  ])
    t.match(await socket.ask(frame), { problem: { code: 'agent_frozen' } }, frame.type)
  t.match(
    problemOfRefusedMcpCall(await callMcpTool(main, PAID_CALL_BODY.tool, {}, { guest: her })),
    {
      code: 'agent_frozen',
    },
  )
  const quoted = await main.ask('POST', '/api/quote', { key: her.key, json: PAID_CALL_BODY })
  t.match(quoted, { status: 200, body: { would_refuse: { code: 'agent_frozen' } } })
  t.match(await main.ask('GET', '/api/agent/me', { key: her.key }), {
    body: { frozen_at: body['frozen_at'] },
  })
  const balance = await main.balance(her)
  const tip = { to_agent_id: her.id, amount_usdc: 0.1 }
  await main.ask('POST', '/api/tip', { key: friend.key, json: tip })
  const grant = { grantId: newUuidV7(Date.now()), agentId: her.id, amount: fromUsdc(1), note: 'x' }
  t.equal(await grantCredits(main.sql, grant), 0)
  t.equal(await main.balance(her), Math.round((balance + 1.095) * 1e6) / 1e6, 'credits arrive')
  const events = await main.sql`
    select type from outbox where agent_id = ${her.id} and type like 'agent.%' order by id`
  t.strictSame([...events], [{ type: 'agent.frozen' }])
  t.match(await change('unfreeze', her), { status: 200, body: { frozen: false, frozen_at: null } })
  t.match(await paid(her), { status: 200 })
  await socket.close()
})

t.test('only a key that manages keys freezes and unfreezes', async (t) => {
  const her = await main.onboard()
  const bound = await createBackpackBoundKey(main, her, await createAgentBackpack(main, her))
  const capped = await main.ask('POST', '/api/keys', { key: her.key, json: { cap_usdc: 1 } })
  const tools = await main.ask('POST', '/api/keys', { key: her.key, json: { scopes: ['tools'] } })
  const others = [
    [bound, 'key_bound'],
    [{ id: her.id, key: capped.body.api_key }, 'insufficient_scope'],
    [{ id: her.id, key: tools.body.api_key }, 'insufficient_scope'],
  ] as const
  for (const [agent, code] of others)
    t.match(await change('freeze', agent), { status: 403, body: { code } })
  t.match(await paid(bound), { status: 200 })
  await change('freeze', her)
  for (const [agent, code] of others)
    t.match(await change('unfreeze', agent), { status: 403, body: { code } })
  t.match(await paid(bound), FROZEN, 'its bound keys are frozen with it')
  const since = await change('freeze', her)
  t.match(await change('freeze', her), { body: { frozen_at: since.body['frozen_at'] } })
})

type Look = Readonly<Record<'tool' | 'url', string>>

t.test('on two nodes: running calls end, and nothing begins after it', async (t) => {
  const her = await main.onboard()
  // Both nodes hold the state of the agent.
  t.match([await paid(her), await paid(her, second)], [{ status: 200 }, { status: 200 }])
  const before = await main.balance(her)
  gate = createTestPauseGate(2)
  const [look, other] = ['first', 'second'].map((page) => ({
    tool: 'agent_see',
    url: `${site.base}/${page}`,
  })) as [Look, Look]
  const json = { calls: [look, other] }
  const running = second.ask('POST', '/api/pipeline', { key: her.key, json })
  await gate.reached
  await change('freeze', her)
  gate.open()
  // This node admits it by what it has in memory; the charge refuses it.
  t.match(await second.call(her, look.tool, look), FROZEN, 'the other node knows it at the charge')
  t.match(await paid(her, second), FROZEN, 'and with the next call')
  t.match((await running).body, { succeeded: 2, total_cost_usdc: 0.06 }, 'what ran has its result')
  t.equal(await main.balance(her), Math.round((before - 0.06) * 1e6) / 1e6, 'and is charged')
  t.match(await change('unfreeze', her, second), { status: 200 })
  t.match([await paid(her), await paid(her, second)], [{ status: 200 }, { status: 200 }])
  await main.verify()
})

t.test('a run of a schedule is refused, and the next one after it is made', async (t) => {
  const her = await main.onboard()
  const slots = createScheduleSlotDriver(t, main.database)
  const json = { interval: '1h', tool: PAID_CALL_BODY.tool }
  const { body } = await main.ask('POST', '/api/task/schedule', { key: her.key, json })
  const id = String(body['schedule_id'])
  const ran = async () => {
    await slots.pass(id)
    await slots.settled()
    return main.ask('GET', `/api/task/schedule/${id}`, { key: her.key })
  }
  const before = await main.balance(her)
  await change('freeze', her)
  t.match(await ran(), { body: { state: 'enabled', last_result: { ok: false } } })
  t.match((await ran()).text, /agent_frozen/)
  t.equal(await main.balance(her), before)
  await change('unfreeze', her)
  t.match(await ran(), { body: { state: 'enabled', last_result: { ok: true } } })
})
