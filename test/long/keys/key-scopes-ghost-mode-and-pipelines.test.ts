import t from 'tap'
import type { TestReply, TestRequestOptions } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'
const PRICE = 0.005

/** Asks as one agent. */
const as =
  (node: TestStation, { key }: TestAgent) =>
  (
    method: string,
    path: string,
    json?: object,
    more: TestRequestOptions = {},
  ): Promise<TestReply> =>
    node.ask(method, path, { key, ...(json === undefined ? {} : { json }), ...more })

t.test('keys', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await spawnSecondNode(t, main)
  const her = await main.onboard()
  const ask = as(main, her)
  const make = async (json: object) => (await ask('POST', '/api/keys', json)).body

  t.test('a scope permits only its own routes and cannot be widened by new keys', async (t) => {
    const reader = { ...her, key: (await make({ scopes: ['read'] })).api_key }
    t.equal((await main.ask('GET', '/api/credits/balance', { key: reader.key })).status, 200)
    for (const [path, json] of [
      ['/api/agent/send', { to_agent_id: her.id, amount_usdc: 1 }],
      ['/api/task/start', { name: 'x', budget_usdc: 1 }],
      ['/api/keys', {}],
      ['/api/refuel', { tool: TOOL }],
    ] as const) {
      const refused = await main.ask('POST', path, { key: reader.key, json })
      t.match(refused, { status: 403, body: { code: 'insufficient_scope' } }, path)
    }
    const keeper = (await make({ scopes: ['keys', 'read'] })).api_key
    const wider = await main.ask('POST', '/api/keys', { key: keeper, json: { scopes: ['tools'] } })
    t.match(wider, { status: 403, body: { missing: ['tools'] } })
    t.equal(
      (await main.ask('POST', '/api/keys', { key: keeper, json: { scopes: ['read'] } })).status,
      200,
    )
  })

  t.test('a cap limits a key, also across a rotation', async (t) => {
    const { api_key: key, id } = await make({ cap_usdc: 0.007 })
    t.equal((await main.call({ ...her, key }, TOOL)).status, 200)
    t.match(await main.call({ ...her, key }, TOOL), {
      status: 403,
      body: { code: 'key_cap_exceeded', spent_usdc: 0.005 },
    })
    t.match(
      await main.ask('POST', '/api/keys', { key, json: {} }),
      { status: 403 },
      'nor does it make others',
    )
    t.equal((await ask('DELETE', `/api/keys/${String(id)}`)).status, 200)
  })

  t.test('an expired key is rejected', async (t) => {
    const { api_key: key, id } = await make({ expires_in_seconds: 3_600 })
    t.equal((await main.ask('GET', '/api/agent/me', { key })).status, 200)
    t.match(await ask('POST', '/api/keys', { expires_at: '2020-01-01T00:00:00Z' }), { status: 400 })
    await main.sql`update api_keys set expires_at = now() where id = ${String(id)}`
    t.equal((await beside.ask('GET', '/api/agent/me', { key })).status, 401)
  })

  t.test('a rotated key works until its grace period ends', async (t) => {
    const old = await make({ name: 'service' })
    const rotated = await ask('POST', '/api/keys/rotate', {
      key_id: old['id'],
      grace_seconds: 3_600,
    })
    t.match(rotated.body, { name: 'service', replaced_key_id: old['id'] })
    for (const key of [old.api_key, rotated.body.api_key]) {
      t.equal((await main.ask('GET', '/api/agent/me', { key })).status, 200)
    }
    const again = await ask('POST', '/api/keys/rotate', {
      key_id: rotated.body['id'],
      grace_seconds: 0,
    })
    t.equal((await main.ask('GET', '/api/agent/me', { key: rotated.body.api_key })).status, 401)
    t.equal((await beside.ask('GET', '/api/agent/me', { key: again.body.api_key })).status, 200)
  })

  t.test('a revoked key is rejected by every process at once', async (t) => {
    for (const [revoker, other] of [
      [main, beside],
      [beside, main],
    ] as const) {
      const { api_key: key, id } = await make({})
      for (const node of [main, beside])
        t.equal((await node.ask('GET', '/api/agent/me', { key })).status, 200)
      await revoker.ask('DELETE', `/api/keys/${String(id)}`, { key: her.key })
      t.equal(
        (await revoker.ask('GET', '/api/agent/me', { key })).status,
        401,
        'where it was revoked',
      )
      // The event is part of the commit; the other process receives it a moment later.
      await other.ask('GET', '/api/keys', { key: her.key })
      t.equal((await other.ask('GET', '/api/agent/me', { key })).status, 401, 'and on the other')
    }
  })

  t.test('a secret reply is stored sealed and repeated under its Idempotency-Key', async (t) => {
    const headers = { 'idempotency-key': 'new-key' }
    const first = await ask('POST', '/api/keys', { name: 'again' }, { headers })
    const second = await as(beside, her)('POST', '/api/keys', { name: 'again' }, { headers })
    t.equal(second.text, first.text)
    const [row] = await main.sql`select response from calls where idempotency_key = 'new-key'`
    t.notMatch(String(row?.['response']), new RegExp(first.body.api_key))
  })

  t.test('a key with a cap cannot evade it by sending, tipping or revoking', async (t) => {
    const [payer, other] = [await main.onboard(), await main.onboard()]
    const own = (await as(main, payer)('POST', '/api/keys', { cap_usdc: 0.02 })).body
    const victim = (await as(main, payer)('POST', '/api/keys', {})).body
    const gift = { to_agent_id: other.id, amount_usdc: 0.01 }
    for (const node of [main, beside]) {
      for (const [method, path, json] of [
        ['POST', '/api/agent/send', gift],
        ['POST', '/api/tip', gift],
        ['DELETE', `/api/keys/${String(victim['id'])}`, undefined],
      ] as const) {
        const refused = await node.ask(method, path, { key: own.api_key, json })
        const told = { code: 'insufficient_scope', detail: /spending cap/ }
        t.match(refused, { status: 403, body: told }, `${method} ${path}`)
      }
    }
    t.equal(await main.balance(payer), 0.5)
    t.equal(await main.balance(other), 0.5)
    const moved = await main.sql`
      select count(*)::int as n from transfers
       where owner in (${payer.id}, ${other.id}) and kind <> 'grant'`
    t.equal(moved[0]?.['n'], 0, 'no transfer is written down')
    for (const node of [main, beside]) {
      const known = await node.ask('GET', '/api/agent/me', { key: victim.api_key })
      t.equal(known.status, 200, 'the other key lives')
    }
    t.equal((await main.call({ ...payer, key: own.api_key }, TOOL)).status, 200, 'it still calls')
    const itself = `/api/keys/${String(own['id'])}`
    t.equal((await main.ask('DELETE', itself, { key: own.api_key })).status, 200, 'or gives up')
  })

  t.test('the Idempotency-Key of one secret answer does not return another', async (t) => {
    const owner = await main.onboard()
    const headers = { 'idempotency-key': 'two-secrets' }
    const made = await as(main, owner)('POST', '/api/keys', {}, { headers })
    t.equal(made.status, 200)
    const list = async () => (await as(main, owner)('GET', '/api/keys')).body['keys']
    const before = await list()
    for (const node of [main, beside]) {
      const reused = await as(node, owner)('POST', '/api/keys/rotate', {}, { headers })
      t.match(reused, { status: 422, body: { code: 'idempotency_key_reused' } })
      t.notOk(reused.text.includes(made.body.api_key))
    }
    t.strictSame(await list(), before, 'nothing was rotated')
    t.equal((await as(beside, owner)('POST', '/api/keys', {}, { headers })).text, made.text)
  })

  t.test('gas verify finds no difference afterwards', () => main.verify())
})

t.test('ghost mode keeps a call out of public statistics', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const open = await main.call(her, TOOL)
  t.match(open.body, { echo_recycled: true, ghost_protocol: { active: false, mode: null } })
  for (const [sent, mode] of [
    ['stealth', 'stealth'],
    ['shadow', 'stealth'],
    ['observe', 'observe'],
  ] as const) {
    const { body } = await main.call(her, TOOL, {}, { 'x-ghost-mode': sent })
    t.match(body, {
      echo_recycled: false,
      ghost_protocol: { active: true, mode },
      _meta: { cost_usdc: PRICE },
    })
  }
  const rows =
    await main.sql`select ghost, count(*)::int as n from calls where tool is not null group by ghost order by ghost`
  t.strictSame(
    rows.map((row) => ({ ...row })),
    [
      { ghost: false, n: 1 },
      { ghost: true, n: 3 },
    ],
  )
  t.equal(await main.balance(her), 0.48)
  await main.verify()
})

t.test('a pipeline answers each call separately', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard(0.027)
  const ask = as(main, her)
  const batch = await ask('POST', '/api/pipeline', {
    calls: [
      { tool: TOOL },
      { tool: 'price_feed', query: 'BTC' },
      { tool: 'hive_read', query: 'x' },
      { tool: 'teleport' },
      { tool: 'agent_ping', params: { target_agent_id: her.id, message: 'hi' } },
      { tool: TOOL, limit: 'many' },
    ],
  })
  t.match(batch, {
    status: 200,
    body: {
      ok: false,
      total_cost_usdc: 0.01,
      results: [
        { tool: TOOL, ok: true, cost_usdc: PRICE },
        { ok: false, cost_usdc: 0, error: { code: 'price_unavailable', refunded: true } },
        { ok: true, cost_usdc: 0 },
        { ok: false, error: { code: 'unknown_tool' } },
        { ok: true, cost_usdc: PRICE },
        { ok: false, error: { code: 'invalid_input' } },
      ],
    },
  })
  t.equal(await main.balance(her), 0.017)
  const many = await ask('POST', '/api/pipeline', {
    calls: Array.from({ length: 10 }, () => ({ tool: TOOL })),
  })
  const results = many.body['results'] as { ok: boolean; error?: object }[]
  t.equal(results.filter(({ ok }) => ok).length, 3)
  t.match(results.find(({ ok }) => !ok)?.error, {
    code: 'payment_required',
    fund_url: `http://gas.test/fund/${her.id}`,
  })
  t.equal(many.body['total_cost_usdc'], 0.015)
  t.equal(await main.balance(her), 0.002)
  await main.verify()
})

t.test(
  'a stream sends start, steps, result and done; after its start a failure is an event too',
  async (t) => {
    const main = await startInProcessTestStation(t)
    const her = await main.onboard(0.007)
    const stream = (json: object) => as(main, her)('POST', '/api/refuel/stream', json)
    const good = await stream({ tool: TOOL })
    t.match(good.headers, { 'content-type': /^text\/event-stream/, 'cache-control': /no-store/ })
    t.ok(good.text.startsWith('retry: 2000\n\n'))
    t.strictSame(
      good.frames.map(({ event }) => event),
      ['start', 'progress', 'progress', 'result', 'done'],
    )
    t.match(good.frames[1]?.data, { step: 'run' })
    t.match(good.frames[2]?.data, { step: 'settle' })
    t.equal(good.frames[0]?.data['call_id'], good.frames[3]?.data._meta.call_id)
    t.match(good.frames[3]?.data, {
      window_hours: 24,
      _meta: { cost_usdc: PRICE, rail: 'credits' },
    })
    const callId = String(good.frames[0]?.data['call_id'])
    t.strictSame(
      good.frames.map(({ id }) => id),
      [1, 2, 3, 4, 5].map((number) => `${callId}:${number}`),
    )
    const bad = await stream({ tool: 'price_feed', query: 'BTC' })
    t.strictSame(
      bad.frames.map(({ event }) => event),
      ['start', 'progress', 'error', 'done'],
    )
    t.match(bad.frames[2]?.data, { status: 503, code: 'price_unavailable', refunded: true })
    t.match(await stream({ tool: TOOL }), {
      status: 402,
      frames: [],
      body: { code: 'payment_required' },
    })
    t.equal(await main.balance(her), 0.002)

    const calls = [{ tool: 'price_feed', query: 'BTC' }, { tool: TOOL }, { tool: 'agent_ping' }]
    const batch = await stream({ tool: 'pipeline', calls })
    t.equal(batch.frames[0]?.event, 'start')
    const parts = batch.frames.filter(({ event }) => event === 'partial')
    const paths = parts.map(({ data }) => String(data['path']))
    t.strictSame(new Set(paths), new Set(calls.map((_, at) => `/results/${at}`)))
    t.equal(paths.length, calls.length)
    const whole = batch.frames.at(-2)
    t.match(whole, { event: 'result', data: { ok: false, failed: 3, total_cost_usdc: 0 } })
    const results = (whole?.data['results'] ?? []) as object[]
    for (const { data } of parts) {
      const at = Number(String(data['path']).slice(-1))
      t.strictSame(data['value'], results[at], 'as the result has it')
    }
    const wrong: [unknown, string][] = [
      [undefined, '/calls'],
      [[], '/calls'],
      [[{}], '/calls/0/tool'],
    ]
    for (const [asked, pointer] of wrong) {
      const { status, body } = await stream({ tool: 'pipeline', calls: asked })
      t.match({ status, body }, { status: 400, body: { errors: [{ pointer }] } })
    }
    await main.verify()
  },
)

t.test('the owner is notified once when credits fall to 0.25, and once at 0.05', async (t) => {
  const main = await startInProcessTestStation(t)
  const [her, rich] = [await main.onboard(0.26), await main.onboard()]
  const told = async () => {
    const rows =
      await main.sql`select data->>'tier' as tier from outbox where type = 'low_balance' and agent_id = ${her.id} order by id`
    return rows.map((row) => String(row['tier']))
  }
  const tier = async () => (await as(main, her)('GET', '/api/credits/balance')).body['tier']
  const spend = async (calls: number) => {
    for (let call = 0; call < calls; call += 1) await main.call(her, TOOL)
  }
  await spend(1)
  t.strictSame([await tier(), await told()], ['healthy', []])
  await spend(1)
  t.strictSame([await tier(), await told()], ['warning', ['warning']])
  await spend(39)
  t.strictSame(
    [await tier(), await told()],
    ['warning', ['warning']],
    'just above 0.05 nothing more is said',
  )
  await spend(1)
  t.strictSame([await tier(), await told()], ['critical', ['warning', 'critical']])
  await spend(10)
  t.strictSame([await main.balance(her), await tier()], [0, 'empty'])
  const before = await told()
  await as(main, rich)('POST', '/api/agent/send', { to_agent_id: her.id, amount_usdc: 0.3 })
  t.strictSame([await tier(), await told()], ['healthy', before])
  await spend(10)
  t.strictSame(
    [await tier(), await told()],
    ['warning', [...before, 'warning']],
    'and again after a top-up',
  )
  await main.verify()
})
