import t from 'tap'
import {
  createAgentBackpack as backpack,
  createBackpackBoundKey as bound,
} from '../../support/agents/test-backpack-bound-keys.ts'
import type { TestRequestOptions } from '../../support/http/test-http-client.ts'
import { connectWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'
const PRICE = 0.005
const BUDGET = { name: 'work', budget_usdc: 0.1 }
const NOT_THERE = { status: 404, body: { code: 'NOT_FOUND' } }

t.test('a bound key', async (t) => {
  const main = await startInProcessTestStation(t)
  const owner = await main.onboard()
  const own = await backpack(main, owner, { fuse: { per_day_usdc: PRICE * 2 } })
  const other = await backpack(main, owner)
  const agent = await bound(main, owner, own)
  const ask = (method: string, path: string, more: TestRequestOptions = {}) =>
    main.ask(method, path, { key: agent.key, ...more })

  t.test('reports its Backpack and limits', async (t) => {
    const caps = { cap_usdc: 3, cap_per_day_usdc: 1, cap_per_month_usdc: 2 }
    const { reply, keyId } = await bound(main, owner, own, caps)
    const scopes = ['tools', 'read', 'tasks', 'backpacks', 'funds']
    t.match(reply, { status: 200, body: { backpack_id: own, scopes, ...caps } })
    const { body } = await main.ask('GET', '/api/keys', { key: owner.key })
    const listed = (body['keys'] as { id: string }[]).find(({ id }) => id === keyId)
    t.match(listed, { backpack_id: own, ...caps })
  })

  t.test('spends in its Backpack although it names none', async (t) => {
    t.equal((await main.call(agent, TOOL)).status, 200)
    t.equal((await main.call(agent, TOOL, {}, { 'x-backpack-id': own })).status, 200)
    t.match(await main.call(agent, TOOL), {
      status: 403,
      body: { code: 'FUSE_TRIPPED', remedy: { action: 'ask_owner' }, retry_after: Number },
    })
    const named = await main.call(owner, TOOL, {}, { 'x-backpack-id': own })
    t.match(named.body, { code: 'FUSE_TRIPPED', remedy: { action: 'raise_fuse' } })
    const dear = await main.call(agent, 'code_sandbox', { language: 'bash', code: 'ls' })
    t.match(dear.body, { code: 'FUSE_TRIPPED', detail: /^((?!window).)*$/ })
    t.notOk('retry_after' in dear.body || 'resets_at' in dear.body, 'waiting does not help')
    const state = await main.ask('GET', `/api/backpack/${own}/state`, { key: owner.key })
    t.match(state.body, { calls: 2, spent_today_usdc: PRICE * 2 })
  })

  t.test('is rejected in another Backpack, existing or not', async (t) => {
    for (const id of [other, 'bp_none']) {
      const headers = { 'x-backpack-id': id }
      const refused = { code: 'key_bound', backpack_id: own, asked_backpack_id: id }
      t.match(await main.call(agent, TOOL, {}, headers), { status: 403, body: refused })
      t.match(await ask('GET', '/api/credits/balance', { headers }), { status: 403, body: refused })
    }
  })

  t.test('is created only for an active Backpack of its own agent', async (t) => {
    const stranger = await main.onboard()
    const theirs = await backpack(main, stranger)
    const gone = await backpack(main, owner)
    await main.ask('POST', `/api/backpack/${gone}/revoke`, { key: owner.key, json: {} })
    const told = async (id: string) => (await bound(main, owner, id)).reply
    t.match(await told(theirs), { status: 404, body: { code: 'NOT_FOUND' } })
    t.match(await told('bp_none'), { status: 404, body: { code: 'NOT_FOUND' } })
    t.match(await told(gone), { status: 403, body: { code: 'REVOKED' } })
  })

  t.test('has no management scope', async (t) => {
    for (const scopes of [['*'], ['tools', 'keys']]) {
      const { reply } = await bound(main, owner, own, { scopes })
      t.match(reply, { status: 400, body: { errors: [{ pointer: '/scopes' }] } })
    }
  })

  t.test('treats a request with and without the header as the same', async (t) => {
    const spare = await backpack(main, owner)
    const key = await bound(main, owner, spare)
    const first = await main.call(key, TOOL, {}, { 'idempotency-key': 'one' })
    const headers = { 'idempotency-key': 'one', 'x-backpack-id': spare }
    const again = await main.call(key, TOOL, {}, headers)
    t.equal(first.status, 200)
    t.equal(again.headers['idempotency-replayed'], 'true')
    t.same(again.body, first.body)
  })

  t.test('works on tasks of its Backpack only', async (t) => {
    const [mine, theirs] = [await backpack(main, owner), await backpack(main, owner)]
    const [one, two] = [await bound(main, owner, mine), await bound(main, owner, theirs)]
    const start = async (key: string, headers = {}) =>
      (await main.ask('POST', '/api/task/start', { key, headers, json: BUDGET })).body.task_id
    const loose = await start(owner.key)
    const hers = await start(two.key)
    const given = await start(owner.key, { 'x-backpack-id': mine })
    const own = await start(one.key)
    const missing = { status: 404, body: { code: 'task_not_found' } }
    for (const id of [loose, hers]) {
      t.match(await main.ask('GET', `/api/task/${id}`, { key: one.key }), missing)
      t.match(await main.call(one, TOOL, {}, { 'x-task-id': id }), missing)
      const json = { task_id: id }
      t.match(await main.ask('POST', '/api/task/end', { key: one.key, json }), missing)
      t.match(await main.ask('POST', '/api/task/cancel', { key: one.key, json }), missing)
      const budget = { key: one.key, json: { budget_usdc: 2 } }
      t.match(await main.ask('PATCH', `/api/task/${id}/budget`, budget), missing)
    }
    for (const id of [given, own]) {
      t.equal((await main.call(one, TOOL, {}, { 'x-task-id': id })).status, 200)
      const shown = await main.ask('GET', `/api/task/${id}`, { key: one.key })
      t.match(shown.body, { backpack_id: mine, spent_usdc: PRICE })
    }
    t.match((await main.ask('GET', '/api/task/active', { key: one.key })).body, { task_id: own })
    const ended = await main.ask('POST', '/api/task/end', { key: one.key, json: {} })
    t.match(ended.body, { task_id: own, state: 'completed' }, 'the newest of its own')
  })

  t.test('sees its Backpack and the spendable balance of the agent', async (t) => {
    const [mine, theirs] = [await backpack(main, owner), await backpack(main, owner)]
    const one = await bound(main, owner, mine)
    const see = (path: string) => main.ask('GET', path, { key: one.key })
    t.equal((await main.call(one, TOOL)).status, 200)
    const { body } = await see('/api/credits/balance')
    const usage = { calls_today: 1, spent_today_usdc: PRICE, calls_total: 1 }
    t.match(body, { balance_usdc: await main.balance(owner), usage })
    t.match((await see('/api/agent/me')).body, { backpack_id: mine })
    for (const part of ['state', 'spend', 'notifications', 'keyring', 'clipboard']) {
      t.equal((await see(`/api/backpack/${mine}/${part}`)).status, 200, part)
      t.match(await see(`/api/backpack/${theirs}/${part}`), NOT_THERE, part)
    }
    for (const tool of ['self_audit', 'agent_evolve'])
      t.match(await main.call(one, tool), { status: 403, body: { code: 'key_bound' } })
  })

  t.test('gets stored replies of keys with the same binding only', async (t) => {
    const [mine, theirs] = [await backpack(main, owner), await backpack(main, owner)]
    const [one, two] = [await bound(main, owner, mine), await bound(main, owner, theirs)]
    const again = (guest: { id: string; key: string }, headers: Record<string, string> = {}) =>
      main.call(guest, TOOL, {}, { 'idempotency-key': 'told', ...headers })
    const first = await again(owner, { 'x-backpack-id': mine })
    t.equal(first.status, 200)
    const refused = { status: 422, body: { code: 'idempotency_key_reused' } }
    t.match(await again(one), refused, 'of a key without a binding')
    t.match(await again(two), refused, 'of another Backpack')
    t.equal((await again(owner, { 'x-backpack-id': mine })).text, first.text)
    const same = await bound(main, owner, mine)
    const own = { 'idempotency-key': 'own' }
    const answered = await main.call(one, TOOL, {}, own)
    t.same((await main.call(same, TOOL, {}, own)).body, answered.body)
  })

  t.test('acts in its Backpack over a WebSocket, which can name a task', async (t) => {
    const mine = await backpack(main, owner)
    const one = await bound(main, owner, mine)
    const { body } = await main.ask('POST', '/api/task/start', { key: one.key, json: BUDGET })
    const socket = await connectWebSocket(t, main.url, { key: one.key })
    const frame = { type: 'refuel', tool: TOOL }
    t.match(await socket.ask({ ...frame, task_id: body.task_id }), { type: 'ack', ok: true })
    t.match(await socket.ask({ ...frame, backpack_id: mine }), { type: 'ack', ok: true })
    const refused = { problem: { code: 'key_bound', backpack_id: mine } }
    t.match(await socket.ask({ ...frame, backpack_id: other }), refused)
    const state = await main.ask('GET', `/api/backpack/${mine}/state`, { key: owner.key })
    t.match(state.body, { calls: 2, spent_total_usdc: 2 * PRICE })
    const task = await main.ask('GET', `/api/task/${body.task_id}`, { key: owner.key })
    t.match(task.body, { calls: 1, spent_usdc: PRICE })
  })

  t.test('receives only events of its Backpack over a WebSocket', async (t) => {
    const [mine, theirs] = [await backpack(main, owner), await backpack(main, owner)]
    const one = await bound(main, owner, mine)
    const socket = await connectWebSocket(t, main.url, { key: one.key })
    await socket.ask({ type: 'ping' })
    await main.call(owner, TOOL)
    await main.call(owner, TOOL, {}, { 'x-backpack-id': theirs })
    await main.call(one, TOOL)
    const fact = await socket.next((told) => told['type'] === 'event')
    t.match(fact, { data: { type: 'tool_call', backpack_id: mine } }, 'the first one it hears')
  })
})
