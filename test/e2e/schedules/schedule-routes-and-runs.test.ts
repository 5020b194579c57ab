import t, { type Test } from 'tap'
import { MINUTE } from '../../../core/clock.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'
import {
  SCHEDULED_RUN_USDC,
  SCHEDULES_PATH,
  startScheduleStation,
  SCHEDULED_TOOL,
  type AgentWithSchedule,
} from '../../support/schedules/test-station-with-schedules.ts'
import type { TestAgent } from '../../support/station/start-test-station.ts'

const PATH = SCHEDULES_PATH
const usd = (amount: number) => Math.round(amount * 1e6) / 1e6

const { main, time, ask, sql, slow, upstream, ...does } = await startScheduleStation(t)
const { create, made, look, patch, budgeted, ran, run, charges, shut, open } = does

const cancel = ({ guest, id }: AgentWithSchedule) =>
  ask('DELETE', `${PATH}/${id}`, { key: guest.key })
const told = async ({ guest }: AgentWithSchedule, type: string) =>
  (
    await sql`select data from outbox where agent_id = ${guest.id} and type = ${type} order by id`
  ).map(({ data }) => data as Record<string, unknown>)

const timersOf = async ({ id }: TestAgent) => [
  ...(await sql`select id from timers where aggregate_id = ${id}`),
]

t.test('a schedule is created, shown, listed, changed and cancelled', async (t) => {
  const before = Date.now()
  const guest = await main.onboard()
  const { status, body } = await create(guest, {
    name: 'trends',
    params: { limit: 2 },
    budget_usdc: 0.05,
    write_to_hive: false,
  })
  const { schedule_id: id, id: same, created_at: created, next_run_at: next, ...rest } = body
  t.strictSame([status, same], [200, id])
  t.strictSame(rest, {
    name: 'trends',
    interval: '5m',
    tool: SCHEDULED_TOOL,
    params: { limit: 2 },
    budget_usdc: 0.05,
    write_to_hive: false,
    backpack_id: null,
    enabled: true,
    state: 'enabled',
    runs: 0,
    run_fee_usdc: 0.001,
    last_result: null,
  })
  const at = Date.parse(String(created))
  t.ok(Math.abs(at - before) < MINUTE)
  t.equal(Date.parse(String(next)), at + 5 * MINUTE, 'first one interval from now')
  const one = { guest, id: String(id) }
  t.strictSame(await look(one), body)
  const listed = await ask('GET', '/api/task/schedules', { key: guest.key })
  t.strictSame(listed.body, { schedules: [body], count: 1, next_cursor: null })

  const changed = await patch(one, { name: 'other', budget_usdc: 1, write_to_hive: true })
  t.match(changed.body, { name: 'other', budget_usdc: 1, write_to_hive: true, enabled: true })
  t.match((await patch(one, { enabled: false })).body, { state: 'disabled', next_run_at: null })
  t.match((await patch(one, { enabled: true })).body, { state: 'enabled', next_run_at: next })

  t.match(await cancel(one), { status: 200, body: { state: 'cancelled', next_run_at: null } })
  t.match(await cancel(one), { status: 200, body: { state: 'cancelled' } })
  t.match(await look(one), { state: 'cancelled' })
  t.match(await patch(one, { enabled: true }), {
    status: 409,
    body: { code: 'schedule_cancelled' },
  })
  const none = await ask('GET', '/api/task/schedules', { key: guest.key })
  t.strictSame(none.body, { schedules: [], count: 0, next_cursor: null })
})

t.test('an invalid schedule is rejected', async (t) => {
  const guest = await main.onboard()
  const refused = async (fields: object, status: number, code: string, pointer?: string) => {
    const answer = await create(guest, fields)
    t.equal(answer.status, status, JSON.stringify(fields))
    t.equal(answer.body.code, code)
    if (pointer !== undefined) t.equal(answer.body.errors[0]?.pointer, pointer)
  }
  await refused({ interval: '10m' }, 400, 'invalid_input')
  await refused({ interval: undefined }, 400, 'invalid_input')
  await refused({ budget_usdc: 1.000001 }, 400, 'invalid_input')
  await refused({ budget_usdc: 0 }, 400, 'invalid_input')
  await refused({ budget_usdc: 0.0000001 }, 400, 'invalid_input', '/budget_usdc')
  await refused({ write_to_hiv: true }, 400, 'invalid_input', '/write_to_hiv')
  await refused({ tool: 'no_such_tool' }, 404, 'unknown_tool')
  await refused({ params: { limit: 'many' } }, 400, 'invalid_input', '/params/limit')
  await refused({ params: { wrong: 1 } }, 400, 'invalid_input', '/params/wrong')
  await refused({ params: [] }, 400, 'invalid_input')
  await refused({ tool: 'crew', params: {} }, 400, 'invalid_input', '/params/type')
  await refused({ params: { params: 'limit' } }, 400, 'invalid_input', '/params/params')
  await refused(
    { ...slow, params: { url: `http://a.example/${'x'.repeat(9_000)}` } },
    400,
    'invalid_input',
  )
  const dear = { tool: 'genesis_forge', params: { prompt: 'an agent that watches gas prices' } }
  const never = await create(guest, dear)
  t.match(never, {
    status: 400,
    body: {
      code: 'invalid_input',
      price_usdc: 1.001,
      errors: [{ pointer: '/tool', detail: /costs 1\.001 USDC.* at most 1$/ }],
    },
  })
  t.match(await create(guest, { budget_usdc: 0.005999 }), {
    status: 400,
    body: {
      price_usdc: SCHEDULED_RUN_USDC,
      errors: [{ pointer: '/budget_usdc', detail: /^must be at least 0\.006: a run of hive_tr/ }],
    },
  })
  await refused(
    { tool: 'price_feed', params: { query: ',' } },
    400,
    'invalid_input',
    '/params/query',
  )
  await refused({ tool: 'data_retrieval', params: { url: 'http://10.0.0.1/' } }, 422, 'blocked_url')
  const gone = { memory_id: guest.id }
  await refused({ tool: 'vault_promote', params: gone }, 404, 'memory_not_found')
  t.strictSame(await timersOf(guest), [])

  const theirs = await made()
  t.match(await patch(theirs, { budget_usdc: 0.005 }), {
    status: 400,
    body: { price_usdc: SCHEDULED_RUN_USDC, errors: [{ pointer: '/budget_usdc' }] },
  })
  t.match(await look(theirs), { budget_usdc: 1 })
  for (const [method, path, body] of [
    ['GET', `${PATH}/${theirs.id}`, undefined],
    ['PATCH', `${PATH}/${theirs.id}`, { enabled: false }],
    ['DELETE', `${PATH}/${theirs.id}`, undefined],
    ['GET', `${PATH}/nothing`, undefined],
    ['PATCH', `${PATH}/nothing`, { enabled: false }],
  ] as const) {
    const answer = await ask(method, path, { key: guest.key, json: body })
    t.match(answer, { status: 404, body: { code: 'schedule_not_found' } }, `${method} ${path}`)
  }
  t.match(await patch(theirs, {}), { status: 400 })
  const mistyped = await patch(theirs, { enable: false })
  t.match(mistyped, { status: 400, body: { errors: [{ pointer: '/enable' }] } })
})

t.test('an agent has at most twenty', async (t) => {
  const guest = await main.onboard()
  const answers = await Promise.all(Array.from({ length: 21 }, () => create(guest)))
  t.equal(answers.filter(({ status }) => status === 200).length, 20)
  const refused = answers.find(({ status }) => status !== 200)
  t.match(refused, { status: 409, body: { code: 'limit_reached' } })
  const [first] = answers.filter(({ status }) => status === 200)
  await cancel({ guest, id: String(first?.body['schedule_id']) })
  t.equal((await create(guest)).status, 200, 'a cancelled one makes room')
})

t.test('a due slot runs once, is charged once, and reports its result', async (t) => {
  const one = await made({ name: 'trends', write_to_hive: true })
  const first = await look(one)
  await time.pass(one.id)
  await ran(one, 1)
  await time.sweep()
  const shown = await look(one)
  t.match(shown.last_result, {
    ok: true,
    slot: first['next_run_at'],
    cost_usdc: SCHEDULED_RUN_USDC,
  })
  t.match(shown.last_result, { result: { domains: Array } })
  t.equal(
    Date.parse(String(shown['next_run_at'])),
    Date.parse(String(first['next_run_at'])) + 5 * MINUTE,
    'slots lie on a grid',
  )
  t.equal(await main.balance(one.guest), usd(0.5 - SCHEDULED_RUN_USDC))
  t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
  t.match(await told(one, 'schedule.result'), [
    {
      schedule_id: one.id,
      name: 'trends',
      tool: SCHEDULED_TOOL,
      ok: true,
      cost_usdc: SCHEDULED_RUN_USDC,
    },
  ])
  const entries = await sql`select content, namespace, tags from hive_entries
    where agent_id = ${one.guest.id}`
  t.equal(entries.length, 1)
  t.match(entries[0], { namespace: 'general', tags: ['schedule', SCHEDULED_TOOL] })
  t.ok(entries[0]?.['content'].startsWith(`Scheduled run of ${SCHEDULED_TOOL} (trends) at `))
  await run(one)
  t.strictSame(await charges(one), [SCHEDULED_RUN_USDC, SCHEDULED_RUN_USDC])
})

t.test(
  'a long result is truncated between two characters in the Hive and not stored in last_result',
  async (t) => {
    // One of them has its cut within a pair.
    for (const name of ['even', 'odd']) {
      const params = { url: `${upstream.base}/long` }
      const one = await made({ ...slow, params, name, write_to_hive: true })
      await run(one)
      const { last_result: last } = await look(one)
      t.match(last, { ok: true }, name)
      t.notOk('result' in (last ?? {}), 'more than is kept')
      const [entry] = await sql`select content from hive_entries where agent_id = ${one.guest.id}`
      t.match(entry?.['content'], /\ud83d\ude00$/, name)
    }
  },
)

t.test('many queue hints for one slot cause one run', async (t) => {
  const one = await made(slow)
  shut()
  await does.begun(one)
  await Promise.all(Array.from({ length: 8 }, () => time.sweep()))
  open()
  await ran(one, 1)
  await time.settled()
  t.strictSame(await charges(one), [0.001])
})

t.test('a failed run costs nothing, and the next slot runs', async (t) => {
  const one = await made({ tool: 'price_feed', params: { query: 'BTC' } })
  await run(one)
  const { last_result: last, ...shown } = await look(one)
  t.match(last, { ok: false, cost_usdc: 0, problem: { code: 'price_unavailable' } })
  t.notOk('result' in (last ?? {}))
  t.match(shown, { state: 'enabled', enabled: true })
  t.equal(await main.balance(one.guest), 0.5)
  t.match(await told(one, 'schedule.result'), [{ ok: false, code: 'price_unavailable' }])
  t.equal((await timersOf(one.guest)).length, 1, 'the next slot has its alarm')
  await run(one)
  t.equal((await told(one, 'schedule.result')).length, 2, 'and comes')
})

t.test('a tool above the budget is not run, and the reason is reported', async (t) => {
  const one = await made()
  await budgeted(one, 0.005999)
  await run(one)
  t.match((await look(one)).last_result, {
    ok: false,
    cost_usdc: 0,
    call_id: null,
    problem: { code: 'schedule_budget_exceeded' },
  })
  t.equal(await main.balance(one.guest), 0.5)
  await patch(one, { budget_usdc: SCHEDULED_RUN_USDC })
  await run(one)
  t.match((await look(one)).last_result, { ok: true, cost_usdc: SCHEDULED_RUN_USDC })
})

t.test(
  'without credits a schedule pauses, notifies its owner, and resumes after a transfer',
  async (t) => {
    const one = await made({}, 0.0059)
    await time.pass(one.id)
    await waitUntilTrue('it pauses', async () => (await look(one))['state'] === 'paused')
    t.match(await look(one), {
      enabled: false,
      next_run_at: null,
      runs: 0,
      last_result: { ok: false, problem: { code: 'payment_required' }, cost_usdc: 0 },
    })
    t.match(await told(one, 'schedule.paused'), [
      {
        schedule_id: one.id,
        name: SCHEDULED_TOOL,
        tool: SCHEDULED_TOOL,
        needed_usdc: SCHEDULED_RUN_USDC,
      },
    ])
    t.strictSame(await timersOf(one.guest), [])
    const friend = await main.onboard()
    const give = (amount_usdc: number) =>
      ask('POST', '/api/agent/send', {
        key: friend.key,
        json: { to_agent_id: one.guest.id, amount_usdc },
      })
    t.equal((await give(0.01)).status, 200)
    await waitUntilTrue('it goes on', async () => {
      await main.balance(one.guest)
      return (await look(one))['state'] === 'enabled'
    })
    t.ok(Date.parse(String((await look(one))['next_run_at'])) > Date.now(), 'with its next slot')
    await run(one)
    t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
  },
)

t.test('a paused schedule also resumes by PATCH, and pauses again without credits', async (t) => {
  const one = await made({}, 0.001)
  const paused = () =>
    waitUntilTrue('it pauses', async () => (await look(one))['state'] === 'paused')
  await time.pass(one.id)
  await paused()
  t.match((await patch(one, { enabled: true })).body, { state: 'enabled', enabled: true })
  await time.pass(one.id)
  await paused()
  t.equal((await told(one, 'schedule.paused')).length, 2)
  t.strictSame(await charges(one), [])
})

t.test('a run counts under the cap of the key that made its schedule', async (t) => {
  const guest = await main.onboard()
  const { body } = await ask('POST', '/api/keys', {
    key: guest.key,
    json: { cap_usdc: 0.01, scopes: ['tasks', 'tools', 'read'] },
  })
  const created = await create({ ...guest, key: body.api_key })
  t.equal(created.status, 200, created.text)
  const one = { guest, id: String(created.body['schedule_id']) }
  await run(one)
  await run(one)
  t.match((await look(one)).last_result, { ok: false, problem: { code: 'key_cap_exceeded' } })
  t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
  const readOnly = await ask('POST', '/api/keys', { key: guest.key, json: { scopes: ['tasks'] } })
  t.match(await create({ ...guest, key: readOnly.body.api_key }), {
    status: 403,
    body: { code: 'insufficient_scope' },
  })
})

t.test('a run cancelled in progress ends and is charged once; no next slot runs', async (t) => {
  const one = await made({ ...slow, write_to_hive: true })
  shut()
  const before = upstream.requests.length
  await time.pass(one.id)
  await waitUntilTrue('the tool runs', () => upstream.requests.length > before)
  t.match((await cancel(one)).body, { state: 'cancelled' })
  open()
  await ran(one, 1)
  t.match((await look(one)).last_result, {
    ok: true,
    cost_usdc: 0.001,
    result: { data: { nul: '\0' } },
  })
  t.strictSame(await charges(one), [0.001])
  await time.pass(one.id)
  await time.settled()
  t.equal((await look(one))['runs'], 1)
  t.equal(await main.balance(one.guest), usd(0.5 - 0.001))
})

t.test('a run disabled in progress ends; after enabling, the next slot runs', async (t) => {
  const one = await made(slow)
  shut()
  const before = upstream.requests.length
  await time.pass(one.id)
  await waitUntilTrue('the tool runs', () => upstream.requests.length > before)
  await patch(one, { enabled: false })
  open()
  await ran(one, 1)
  const { body } = await patch(one, { enabled: true })
  t.match(body, { state: 'enabled', runs: 1 })
  t.strictSame(await charges(one), [0.001])
})

t.test('a caller cannot use the Idempotency-Key of a run', async (t) => {
  const one = await made()
  const [timer] = await sql`select input from timers where aggregate_id = ${one.guest.id}`
  const key = `schedule ${one.id} ${timer?.['input'].slot}`
  const answer = await main.call(one.guest, SCHEDULED_TOOL, {}, { 'idempotency-key': key })
  t.match(answer, { status: 400, body: { code: 'invalid_input' } })
})

t.test('gas verify finds nothing, and would find a slot charged twice', async (t) => {
  await main.verify()
  const [row] = await sql`select * from schedule_runs where cost_micros > 0 limit 1`
  const spoilt = async (t: Test, column: string, value: string) => {
    const before = row?.[column]
    await sql`update schedule_runs set ${sql(column)} = ${value}
      where schedule_id = ${row?.['schedule_id']} and slot = ${row?.['slot']}`
    const { verifyDatabaseInvariants } =
      await import('../../../persistence/verify/verify-database-invariants.ts')
    const broken = (await verifyDatabaseInvariants(sql)).filter(
      (finding) => finding.broken.length > 0,
    )
    t.strictSame(
      broken.map(({ rule }) => rule),
      ['I5c'],
      `${column} spoilt`,
    )
    await sql`update schedule_runs set ${sql(column)} = ${before}
      where schedule_id = ${row?.['schedule_id']} and slot = ${row?.['slot']}`
  }
  await spoilt(t, 'budget_micros', '1')
  await spoilt(t, 'cost_micros', '7')
})
