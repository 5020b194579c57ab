import t from 'tap'
import type { TestReply, TestRequestOptions } from '../../support/http/test-http-client.ts'
import {
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import { startTestDataRetrievalWebsite } from '../../support/upstreams/test-data-retrieval-website.ts'

const TOOL = 'hive_trending'
const PRICE = 0.005

interface SpendRow {
  readonly tool: string
  readonly rail: string
  readonly error_code: string | null
  readonly times: number
}

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

t.test('the lifecycle of a task', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const ask = as(main, her)
  t.match(await ask('GET', '/api/task/active'), { status: 404, body: { code: 'no_active_task' } })
  const first = (await ask('POST', '/api/task/start', { name: 'a', budget_usdc: 0.012 })).body
    .task_id
  const second = (await ask('POST', '/api/task/start', { name: 'b', budget_usdc: 1 })).body.task_id
  t.match((await ask('GET', '/api/task/active')).body, { task_id: second, name: 'b' })

  const within = { 'x-task-id': first }
  for (const spent of [0.005, 0.01]) {
    t.equal((await main.call(her, TOOL, {}, within)).status, 200)
    t.match((await ask('GET', `/api/task/${first}`)).body, { spent_usdc: spent, held_usdc: 0 })
  }
  const full = await main.call(her, TOOL, {}, within)
  t.match(full, {
    status: 402,
    body: {
      code: 'task_budget_exceeded',
      spent_usdc: 0.01,
      limit_usdc: 0.012,
      needed_usdc: 0.005,
      detail:
        '0.01 of 0.012 USDC is spent in this task, and this costs 0.005. Nothing was charged.',
      remedy: { url: `http://gas.test/api/task/${first}/budget` },
    },
  })
  t.equal(
    (await main.call(her, 'hive_read', { query: 'x' }, within)).status,
    200,
    'free calls go on',
  )
  const low = await ask('PATCH', `/api/task/${first}/budget`, { budget_usdc: 0.009999 })
  t.match(low, { status: 409, body: { code: 'budget_below_spent', spent_usdc: 0.01 } })
  const more = await ask('PATCH', `/api/task/${first}/budget`, { budget_usdc: 0.015 })
  t.match(more.body, { budget_usdc: 0.015, remaining: 0.005, pct_used: 66.66 })
  t.equal((await main.call(her, TOOL, {}, within)).status, 200)

  const done = await ask('POST', '/api/task/end', {}, { headers: within })
  t.match(done.body, { task_id: first, state: 'completed', spent_usdc: 0.015, calls: 4 })
  t.match(await main.call(her, TOOL, {}, within), {
    status: 409,
    body: { code: 'task_not_active' },
  })
  t.match(await ask('POST', '/api/task/cancel', { task_id: first }), { status: 409 })
  t.match(await ask('PATCH', `/api/task/${first}/budget`, { budget_usdc: 5 }), { status: 409 })
  t.match((await ask('POST', '/api/task/cancel', {})).body, { task_id: second, state: 'abandoned' })
  t.match(await ask('POST', '/api/task/end', {}), { status: 404, body: { code: 'no_active_task' } })
  t.match((await ask('GET', `/api/task/${first}`)).body, { state: 'completed', spent_usdc: 0.015 })
  t.equal(await main.balance(her), 0.485)
  await main.verify()
})

t.test('the lifecycle of a Backpack', async (t) => {
  const upstream = await startTestDataRetrievalWebsite(t)
  const main = await startInProcessTestStation(t, { SSRF_ALLOW: `127.0.0.1:${upstream.port}` })
  const her = await main.onboard()
  const ask = as(main, her)
  t.match((await main.ask('GET', '/api/backpack')).body, {
    name: 'Backpack',
    limits: { expiry_days_default: 90 },
  })
  const made = await ask('POST', '/api/backpack/create', {
    agent_name: 'ann',
    tools: ['hive_trending', 'data_retrieval'],
    fuse: { per_day_usdc: 0.01 },
    pager: { webhook_url: 'https://a.example/hook' },
  })
  const id = made.body.backpack_id
  t.match(made.body, { state: 'active', fuse: { per_day_usdc: 0.01, per_call_usdc: null } })
  const days =
    (Date.parse(String(made.body['expires_at'])) - Date.parse(String(made.body['created_at']))) /
    864e5
  t.ok(Math.abs(days - 90) < 0.01)
  const path = `/api/backpack/${id}`
  const packed = { 'x-backpack-id': id }

  t.test('the tool list and the fuse reject calls before a charge', async (t) => {
    const outside = await main.call(her, 'hive_read', { query: 'x' }, packed)
    t.match(outside, {
      status: 403,
      body: { code: 'TOOL_NOT_ALLOWED', allowed_tools: ['hive_trending', 'data_retrieval'] },
    })
    for (let call = 0; call < 2; call += 1)
      t.equal((await main.call(her, TOOL, {}, packed)).status, 200)
    t.match(await main.call(her, TOOL, {}, packed), { status: 403, body: { code: 'FUSE_TRIPPED' } })
    t.equal((await main.call(her, TOOL)).status, 200, 'without the Backpack it is not asked')
    t.match((await ask('GET', `${path}/state`)).body, {
      spent_today_usdc: 0.01,
      spent_total_usdc: 0.01,
      calls: 2,
    })
    const changed = await ask('PATCH', path, { fuse: { per_month_usdc: 0.012 } })
    t.match(
      changed.body,
      { fuse: { per_day_usdc: 0.01, per_month_usdc: 0.012 } },
      'one limit is changed',
    )
    for (const [change, limits] of [
      [{ fuse: { per_day_usdc: null } }, ['per_day_usdc']],
      [
        { fuse: { per_day_usdc: null, per_call_usdc: 0.5 }, remove: ['per_month_usdc'] },
        ['per_day_usdc'],
      ],
      [{ tools: null, fuse: { per_month_usdc: null } }, ['per_month_usdc', 'tools']],
    ] as const) {
      const remedy = { method: 'PATCH', url: `http://gas.test${path}`, body: { remove: limits } }
      t.match(await ask('PATCH', path, change), {
        status: 409,
        body: { code: 'limit_not_named', backpack_id: id, limits, remedy },
      })
    }
    const both = { fuse: { per_day_usdc: 1 }, remove: ['per_day_usdc'] }
    t.match(await ask('PATCH', path, both), { status: 400, body: { code: 'invalid_input' } })
    for (const remove of [[], ['per_day'], ['per_day_usdc', 'per_day_usdc'], null])
      t.match(await ask('PATCH', path, { remove }), { status: 400 }, JSON.stringify(remove))
    t.match(
      (await ask('GET', path)).body,
      {
        tools: ['hive_trending', 'data_retrieval'],
        fuse: { per_call_usdc: null, per_day_usdc: 0.01, per_month_usdc: 0.012 },
      },
      'a null removes no limit',
    )
    const unset = { fuse: { per_call_usdc: null } }
    t.match(await ask('PATCH', path, unset), { status: 200 }, 'null where none is set')
    t.match(
      (await ask('PATCH', path, { remove: ['per_day_usdc', 'per_call_usdc'] })).body,
      { fuse: { per_call_usdc: null, per_day_usdc: null, per_month_usdc: 0.012 } },
      'a limit that is named is removed',
    )
    t.match(await main.call(her, TOOL, {}, packed), {
      status: 403,
      body: { limit_source: 'backpack.per_month' },
    })
    await ask('PATCH', path, { fuse: { per_month_usdc: null }, remove: ['per_month_usdc'] })
    t.equal((await main.call(her, TOOL, {}, packed)).status, 200)
    t.match(await ask('PATCH', path, { tools: ['teleport'] }), { status: 400 })
    t.match((await ask('PATCH', path, { remove: ['tools'] })).body, { tools: null })
    t.equal((await main.call(her, 'hive_read', { query: 'x' }, packed)).status, 200)
  })

  t.test('its log and its pager report events', async (t) => {
    const failed = await main.call(her, 'price_feed', { query: 'BTC' }, packed)
    t.equal(failed.status, 503)
    const spend = await ask('GET', `${path}/spend?limit=2`)
    t.match(spend.body, {
      spent_total_usdc: 0.015,
      calls: [
        { tool: 'price_feed', success: false, cost_usdc: 0, error_code: 'price_unavailable' },
        { tool: 'hive_read', rail: 'free' },
      ],
    })
    const rest = await ask('GET', `${path}/spend?cursor=${String(spend.body['next_cursor'])}`)
    const older = (rest.body as unknown as { calls: SpendRow[] }).calls
    t.match(
      older.filter(({ rail }) => rail !== 'none'),
      [{ cost_usdc: PRICE }, { cost_usdc: PRICE }, { cost_usdc: PRICE }],
    )
    t.ok(older.filter(({ rail }) => rail !== 'none').every(({ tool }) => tool === TOOL))
    const refusals = older.filter(({ rail }) => rail === 'none')
    const refused = (wanted: string) =>
      refusals
        .filter(({ tool, error_code }) => `${tool} ${error_code}` === wanted)
        .reduce((sum, { times }) => sum + times, 0)
    t.equal(refused('hive_read TOOL_NOT_ALLOWED'), 1)
    t.equal(refused(`${TOOL} FUSE_TRIPPED`), 2)
    // One row for each tool, code and minute: a minute may have ended between two of them.
    t.ok(refusals.length === 2 || refusals.length === 3, 'two refusals of the fuse are one row')
    const listed = async (query: string) =>
      ((await ask('GET', `${path}/spend?${query}`)).body['calls'] as []).length
    t.equal(await listed('success=false'), 1 + refusals.length)
    t.equal(await listed('success=true'), 4)
    t.equal(await listed(`tool=${TOOL}`), 3 + refusals.length - 1)
    t.equal(await listed('from=2999-01-01'), 0)
    const { body } = await ask('GET', `${path}/notifications?limit=200`)
    const counts: Record<string, number> = {}
    for (const { type } of body['notifications'] as { type: string }[])
      counts[type] = (counts[type] ?? 0) + 1
    t.strictSame(counts, {
      'backpack.created': 1,
      tool_call: 4,
      error: 1,
      'fuse.tripped': 2,
      daily_limit_hit: 1,
    })
  })

  t.test('its clipboard stores notes, some with an expiry', async (t) => {
    const value = { deep: [1, { two: null }], text: 'ü' }
    t.match((await ask('POST', `${path}/clipboard`, { key: 'a', value })).body, {
      key: 'a',
      value,
      expires_at: null,
    })
    await ask('POST', `${path}/clipboard`, { key: 'b', value: 1, ttl_seconds: 60 })
    await ask('POST', `${path}/clipboard`, { key: 'b', value: 2, ttl_seconds: 60 })
    t.match((await ask('GET', `${path}/clipboard?key=b`)).body, {
      entries: [{ key: 'b', value: 2 }],
    })
    t.strictSame((await ask('GET', `${path}/clipboard?key=a`)).body['entries'], [
      { ...((await ask('GET', `${path}/clipboard?key=a`)).body['entries'] as object[])[0], value },
    ])
    await main.sql`update clipboard set expires_at = now() - interval '1 second' where key = 'b'`
    t.match(await ask('GET', `${path}/clipboard?key=b`), {
      status: 404,
      body: { code: 'entry_not_found' },
    })
    t.equal(((await ask('GET', `${path}/clipboard`)).body['entries'] as []).length, 1)
    t.match((await ask('DELETE', `${path}/clipboard?key=a`)).body, { removed: true })
    t.match(await ask('DELETE', `${path}/clipboard?key=a`), { status: 404 })
  })

  t.test('its keyring sends a secret to a listed host only', async (t) => {
    const host = '127.0.0.1'
    const secret = { name: 'TOKEN', secret: 's3cret-value', hosts: [host] }
    const kept = await ask('POST', `${path}/keyring`, secret)
    t.match(kept, { status: 200, body: { name: 'TOKEN', hosts: [host] } })
    await ask('POST', `${path}/keyring`, { ...secret, name: 'ELSEWHERE', hosts: ['a.example'] })
    const listed = await ask('GET', `${path}/keyring`)
    t.equal((listed.body['secrets'] as []).length, 2)
    t.notMatch(kept.text + listed.text, /s3cret/)
    const fetch = (name: string, headers: Record<string, string>) =>
      main.call(
        her,
        'data_retrieval',
        { url: `${upstream.base}/echo`, headers: { 'x-token': `Bearer {{keyring.${name}}}` } },
        headers,
      )
    const echoed = await fetch('TOKEN', packed)
    t.equal(upstream.requests.length, 1)
    t.match(echoed, { status: 200, body: { status_code: 200 } })
    for (const refused of [
      await fetch('ELSEWHERE', packed),
      await fetch('NOTHING', packed),
      await fetch('TOKEN', {}),
    ]) {
      t.match(refused.status, /^4\d\d$/, refused.text)
    }
    t.equal(upstream.requests.length, 1, 'a refused secret sends nothing')
    const stored = await main.sql`select string_agg(k::text, '') as all from keyring k`
    t.notMatch(String(stored[0]?.['all']), /s3cret|czNjcmV0|733363726574/)
    t.match((await ask('DELETE', `${path}/keyring?name=TOKEN`)).body, { removed: true })
    t.match((await fetch('TOKEN', packed)).status, /^4\d\d$/)
  })

  t.test('it can be renewed, expires, and is revoked for good', async (t) => {
    const renewed = await ask('POST', `${path}/renew`, { expiry_days: 1 })
    t.equal(renewed.body['state'], 'active')
    await ask('POST', `${path}/revoke`)
    t.match((await ask('GET', `${path}/state`)).body, { state: 'revoked' })
    for (const [method, action, json] of [
      ['POST', '/renew', {}],
      ['PATCH', '', { tools: null }],
      ['POST', '/keyring', { name: 'A', secret: 'b' }],
      ['POST', '/clipboard', { key: 'a', value: 1 }],
    ] as const) {
      t.match(
        await ask(method, `${path}${action}`, json),
        { status: 403, body: { code: 'REVOKED' } },
        action,
      )
    }
    t.match(await main.call(her, TOOL, {}, packed), { status: 403, body: { code: 'REVOKED' } })
    t.equal((await ask('GET', `${path}/spend`)).status, 200, 'its log stays')
  })
  t.test('gas verify finds no difference afterwards', () => main.verify())
})
