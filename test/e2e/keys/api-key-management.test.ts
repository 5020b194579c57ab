import t from 'tap'
import { TOKEN_BUCKET_RATES } from '../../../core/limits.ts'
import {
  createAgentBackpack,
  createBackpackBoundKey,
} from '../../support/agents/test-backpack-bound-keys.ts'
import type { TestRequestOptions } from '../../support/http/test-http-client.ts'
import {
  startInProcessTestStation,
  type TestStation,
} from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'
const LAST = { status: 409, body: { code: 'last_key', remedy: { action: 'make_another_key' } } }

/** Makes a key of the agent that asks. */
const make = async (
  node: TestStation,
  key: string,
  json: object = {},
  more: TestRequestOptions = {},
) => {
  const { body } = await node.ask('POST', '/api/keys', { key, json, ...more })
  return { key: String(body['api_key']), id: String(body['id']) }
}
const revoke = (node: TestStation, key: string, id: string) =>
  node.ask('DELETE', `/api/keys/${id}`, { key })
const works = async (node: TestStation, key: string) =>
  (await node.ask('GET', '/api/agent/me', { key })).status === 200

t.test('managing keys', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await startInProcessTestStation(t, {}, { database: main.database })
  const listed = async (key: string) =>
    (await main.ask('GET', '/api/keys', { key })).body['keys'] as { id: string; name: string }[]
  const first = async (key: string) => (await listed(key))[0]?.id ?? ''

  t.test('a stored secret is returned only to the API key that requested it', async (t) => {
    const owner = await main.onboard()
    const spare = await make(main, owner.key)
    const headers = { 'idempotency-key': 'rotate-2026-11' }
    const rotate = (key: string) => main.ask('POST', '/api/keys/rotate', { key, headers, json: {} })
    const told = await rotate(owner.key)
    t.equal(told.status, 200)
    const narrow = await make(main, spare.key, { scopes: ['keys'] })
    const capped = await make(main, spare.key, { cap_usdc: 0.001 })
    for (const { key } of [spare, narrow]) {
      const refused = await rotate(key)
      t.match(refused, { status: 422, body: { code: 'idempotency_key_reused' } })
      t.notOk('api_key' in refused.body)
    }
    t.match(await rotate(capped.key), { status: 403, body: { code: 'insufficient_scope' } })
    t.equal((await rotate(owner.key)).body.api_key, told.body.api_key, 'its own repetition')
  })

  t.test('a compromised key and its stored secrets end at once on every node', async (t) => {
    const owner = await main.onboard()
    const leaked = await make(main, owner.key)
    await make(main, leaked.key, {}, { headers: { 'idempotency-key': 'secret' } })
    t.ok(await works(beside, leaked.key), 'the other node knows it')
    const rotate = (json: object) => main.ask('POST', '/api/keys/rotate', { key: owner.key, json })
    const both = { key_id: leaked.id, compromised: true, grace_seconds: 60 }
    t.match(await rotate(both), {
      status: 400,
      body: { errors: [{ pointer: '/grace_seconds' }] },
    })
    const { body } = await rotate({ key_id: leaked.id, compromised: true })
    t.notOk(await works(main, leaked.key))
    t.notOk(await works(beside, leaked.key))
    t.ok(await works(beside, body.api_key))
    const kept = await main.sql`
      select from calls where key_id = ${leaked.id} and response is not null`
    t.equal(kept.length, 0)
  })

  t.test('the last permanent key that may do everything cannot be revoked', async (t) => {
    const owner = await main.onboard()
    const id = await first(owner.key)
    const refused = async () => t.match(await revoke(main, owner.key, id), LAST)
    await refused()
    await make(main, owner.key, { scopes: ['tools'] })
    await make(main, owner.key, { cap_usdc: 1 })
    await createBackpackBoundKey(main, owner, await createAgentBackpack(main, owner))
    const short = await make(main, owner.key, { expires_in_seconds: 3_600 })
    await refused()
    const away = { key: short.key, json: { key_id: id } }
    t.match(await main.ask('POST', '/api/keys/rotate', away), LAST, 'nor does it get an expiry')
    t.equal((await revoke(main, owner.key, short.id)).status, 200)
    const keeper = await make(main, owner.key, { scopes: ['keys'] })
    t.match(await revoke(main, keeper.key, id), LAST, 'which could give no other right again')
    t.equal((await revoke(main, owner.key, keeper.id)).status, 200)
    const heir = await make(main, owner.key)
    t.equal((await revoke(main, owner.key, id)).status, 200)
    t.match(await revoke(main, heir.key, heir.id), LAST)
  })

  t.test('of two last keys revoked concurrently on two nodes one remains', async (t) => {
    const owner = await main.onboard()
    const id = await first(owner.key)
    const other = await make(main, owner.key)
    const ended = await Promise.all([
      revoke(main, owner.key, other.id),
      revoke(beside, other.key, id),
    ])
    const kept = [await works(main, owner.key), await works(main, other.key)]
    t.equal(kept.filter(Boolean).length, 1)
    t.equal(ended.filter(({ status }) => status === 200).length, 1)
  })
})

t.test('a busy agent cannot block key management by its owner', async (t) => {
  const main = await startInProcessTestStation(t, { RATE_LIMITS: 'on' })
  const owner = await main.onboard()
  const own = await createAgentBackpack(main, owner)
  const agent = await createBackpackBoundKey(main, owner, own)
  const narrow = await make(main, owner.key, { scopes: ['tools'] })
  const { burst } = TOKEN_BUCKET_RATES.manage
  const json = { fuse: null }
  for (let n = 0; n < burst * 2; n++) {
    const way = n % 2 === 0 ? agent.key : narrow.key
    const { status } = await main.ask('PATCH', `/api/backpack/${own}`, { key: way, json })
    t.ok(status === 403 || status === 429, 'refused')
  }
  t.equal((await main.call(agent, TOOL)).status, 200)
  t.equal((await revoke(main, owner.key, agent.keyId)).status, 200)
  t.equal((await main.call(agent, TOOL)).body.code, 'payment_required', 'its key is gone')
})

t.test('an agent onboarded with agent_key', async (t) => {
  const main = await startInProcessTestStation(t)
  const wanted = { tools: [TOOL, 'agent_send'], fuse: { per_day_usdc: 0.01 }, expiry_days: 7 }
  const json = { name: 'scout', agent_key: wanted }
  const headers = { 'idempotency-key': '0193a5b0-0000-7000-8000-0000000000aa' }
  const onboard = () => main.ask('POST', '/api/onboard', { json, headers })
  const { status, body } = await onboard()
  const { agent_id: id, backpack_id: pack } = body
  const owner = { id, key: body.api_key }
  const agent = { id, key: String(body['agent_key']) }

  t.test('gets both keys, with the holder of each', async (t) => {
    t.equal(status, 201)
    t.not(owner.key, agent.key)
    t.match(body['keys_note'], new RegExp(`Give agent_key to the agent.*${pack}.*Keep api_key`))
    const state = await main.ask('GET', `/api/backpack/${pack}/state`, { key: owner.key })
    const fuse = { per_call_usdc: null, per_day_usdc: 0.01, per_month_usdc: null }
    t.match(state.body, { agent_name: 'scout', state: 'active', tools: wanted.tools, fuse })
    const days = Date.parse(String(state.body['expires_at'])) - Date.now()
    t.ok(days > 6.9 * 86_400_000 && days < 7.1 * 86_400_000)
  })

  t.test('spends within its fuse and cannot lift it', async (t) => {
    for (const expected of ['200', '200', 'FUSE_TRIPPED']) {
      const answer = await main.call(agent, TOOL)
      t.equal(answer.body.code ?? String(answer.status), expected)
    }
    t.match(await main.call(agent, 'get_latest_gas_station'), {
      body: { code: 'TOOL_NOT_ALLOWED' },
    })
    const lift = { key: agent.key, json: { fuse: { per_day_usdc: 100 } } }
    const refused = { status: 403, body: { code: 'key_bound', backpack_id: pack } }
    t.match(await main.ask('PATCH', `/api/backpack/${pack}`, lift), refused)
    t.equal(
      (await main.ask('PATCH', `/api/backpack/${pack}`, { ...lift, key: owner.key })).status,
      200,
    )
    t.equal((await main.call(agent, TOOL)).status, 200)
  })

  t.test('gets the same agent and keys again after a lost reply', async (t) => {
    t.same((await onboard()).body, body)
    await main.sql`delete from calls where operation = 'onboard'`
    const again = (await onboard()).body
    for (const name of ['api_key', 'agent_key', 'backpack_id', 'agent_id'])
      t.equal(again[name], body[name], name)
    const keys = await main.sql`select from api_keys where agent_id = ${id}`
    t.equal(keys.length, 2)
  })

  t.test('rejects an unknown tool', async (t) => {
    const before = await main.sql`select from agents`
    for (const [name, meant] of [
      ['agent_sent', 'agent_send'],
      ['hive_trendin', TOOL],
    ] as const) {
      const asked = { name: 'scout', agent_key: { tools: [TOOL, name] } }
      const refused = await main.ask('POST', '/api/onboard', { json: asked })
      const errors = [{ pointer: '/agent_key/tools/1' }]
      t.match(refused, { status: 400, body: { errors, did_you_mean: meant } })
      const batch = { agents: [{ name: 'a1' }, asked] }
      t.match(await main.ask('POST', '/api/onboard/bulk', { json: batch }), {
        status: 400,
        body: { errors: [{ pointer: '/agents/1/agent_key/tools/1' }] },
      })
    }
    t.equal((await main.sql`select from agents`).length, before.length)
  })

  t.test('may be onboarded in a batch', async (t) => {
    const agents = [{ name: 'plain' }, { name: 'packed', agent_key: {} }]
    const { body } = await main.ask('POST', '/api/onboard/bulk', { json: { agents } })
    const [plain, packed] = body['agents'] as Record<string, unknown>[]
    t.notOk(plain !== undefined && 'agent_key' in plain)
    t.match(packed, { agent_key: /^gas_/, backpack_id: /^bp_/ })
  })

  t.test('leaves a ledger that gas verify accepts', () => main.verify())
})
