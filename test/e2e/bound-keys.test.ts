import t from 'tap'
import type { Asked } from '../support/client.ts'
import { startStation, type Guest, type Served } from '../support/station.ts'

const TOOL = 'hive_trending'
const PRICE = 0.005

/** A Backpack of an agent. */
async function backpack(node: Served, { key }: Guest, json: object = {}): Promise<string> {
  const made = await node.ask('POST', '/api/backpack/create', {
    key,
    json: { agent_name: 'packed', ...json },
  })
  return String(made.body['backpack_id'])
}

/** A key bound to a Backpack, as a guest of the same agent. */
async function bound(node: Served, owner: Guest, backpackId: string, json: object = {}) {
  const made = await node.ask('POST', '/api/keys', {
    key: owner.key,
    json: { backpack_id: backpackId, ...json },
  })
  return { id: owner.id, key: String(made.body['api_key']), keyId: String(made.body['id']), made }
}

t.test('a bound key', async (t) => {
  const main = await startStation(t)
  const owner = await main.onboard()
  const own = await backpack(main, owner, { fuse: { per_day_usdc: PRICE * 2 } })
  const other = await backpack(main, owner)
  const agent = await bound(main, owner, own)
  const ask = (method: string, path: string, more: Asked = {}) =>
    main.ask(method, path, { key: agent.key, ...more })

  t.test('says what it is bound to and limited by', async (t) => {
    const caps = { cap_usdc: 3, cap_per_day_usdc: 1, cap_per_month_usdc: 2 }
    const { made, keyId } = await bound(main, owner, own, caps)
    const scopes = ['tools', 'read', 'tasks', 'backpacks', 'funds']
    t.match(made, { status: 200, body: { backpack_id: own, scopes, ...caps } })
    const { body } = await main.ask('GET', '/api/keys', { key: owner.key })
    const listed = (body['keys'] as { id: string }[]).find(({ id }) => id === keyId)
    t.match(listed, { backpack_id: own, ...caps })
  })

  t.test('spends in its Backpack although it names none', async (t) => {
    t.equal((await main.call(agent, TOOL)).status, 200)
    t.equal((await main.call(agent, TOOL, {}, { 'x-backpack-id': own })).status, 200)
    t.match(await main.call(agent, TOOL), { status: 403, body: { code: 'FUSE_TRIPPED' } })
    const state = await main.ask('GET', `/api/backpack/${own}/state`, { key: owner.key })
    t.match(state.body, { calls: 2, spent_today_usdc: PRICE * 2 })
  })

  t.test('is refused in another Backpack, whether it exists or not', async (t) => {
    for (const id of [other, 'bp_none']) {
      const headers = { 'x-backpack-id': id }
      const refused = { code: 'key_bound', backpack_id: own, asked_backpack_id: id }
      t.match(await main.call(agent, TOOL, {}, headers), { status: 403, body: refused })
      t.match(await ask('GET', '/api/credits/balance', { headers }), { status: 403, body: refused })
    }
  })

  t.test('is only made for a Backpack of its own agent that is not revoked', async (t) => {
    const stranger = await main.onboard()
    const theirs = await backpack(main, stranger)
    const gone = await backpack(main, owner)
    await main.ask('POST', `/api/backpack/${gone}/revoke`, { key: owner.key, json: {} })
    const told = async (id: string) => (await bound(main, owner, id)).made
    t.match(await told(theirs), { status: 404, body: { code: 'NOT_FOUND' } })
    t.match(await told('bp_none'), { status: 404, body: { code: 'NOT_FOUND' } })
    t.match(await told(gone), { status: 403, body: { code: 'REVOKED' } })
  })

  t.test('has no scope that manages', async (t) => {
    for (const scopes of [['*'], ['tools', 'keys']]) {
      const { made } = await bound(main, owner, own, { scopes })
      t.match(made, { status: 400, body: { errors: [{ pointer: '/scopes' }] } })
    }
  })

  t.test('repeats a request with and without the header as one', async (t) => {
    const spare = await backpack(main, owner)
    const key = await bound(main, owner, spare)
    const first = await main.call(key, TOOL, {}, { 'idempotency-key': 'one' })
    const headers = { 'idempotency-key': 'one', 'x-backpack-id': spare }
    const again = await main.call(key, TOOL, {}, headers)
    t.equal(first.status, 200)
    t.equal(again.headers['idempotency-replayed'], 'true')
    t.same(again.body, first.body)
  })
})
