import t from 'tap'
import { updateScheduleCommand } from '../../../actors/commands/schedule-aggregate-commands.ts'
import {
  createAgentKeyRequester,
  createAgentBackpack as backpack,
  createBackpackBoundKey as bound,
} from '../../support/agents/test-backpack-bound-keys.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'
import {
  SCHEDULED_RUN_USDC,
  startScheduleStation,
  SCHEDULES_PATH,
  SCHEDULED_TOOL,
  type AgentWithSchedule,
} from '../../support/schedules/test-station-with-schedules.ts'
import type { TestAgent } from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

const heard: (string | undefined)[] = []
const listener = await startFixtureServer(t, (request, response) => {
  heard.push(request.headers.authorization)
  sendJsonFixture(response, { ok: true })
})
const does = await startScheduleStation(t, { SSRF_ALLOW: `127.0.0.1:${listener.port}` })
const { main, time, sql, create, look, run, charges, patch } = does

/** Another key of an agent, as a guest with a key id. */
async function another(owner: TestAgent, json: object = {}) {
  const { body } = await createAgentKeyRequester(main, owner)('POST', '/api/keys', json)
  return { id: owner.id, key: body.api_key, keyId: String(body['id']) }
}
/** A schedule made with a key, as its owner looks at it. */
async function scheduled(
  owner: TestAgent,
  by: TestAgent,
  fields: object = {},
): Promise<AgentWithSchedule> {
  const { status, text, body } = await create(by, fields)
  if (status !== 200) throw new Error(`${status} ${text}`)
  return { guest: owner, id: String(body['schedule_id']) }
}
const paused = (one: AgentWithSchedule) =>
  waitUntilTrue('it pauses', async () => (await look(one))['state'] === 'paused')
/** As if a thief had enabled it after the pause, by a request that a node had let in before. */
const enabledLate = ({ guest, id: scheduleId }: AgentWithSchedule, keyId: string) =>
  main.station.actors.ask(
    guest.id,
    updateScheduleCommand,
    { scheduleId, enabled: true, keyId },
    { touch: [{ kind: 'schedule', id: scheduleId }] },
  )
const revoke = (owner: TestAgent, keyId: string) =>
  createAgentKeyRequester(main, owner)('DELETE', `/api/keys/${keyId}`)
const because = (code: string) => ({
  state: 'paused',
  next_run_at: null,
  last_result: { ok: false, cost_usdc: 0, call_id: null, problem: { code } },
})

t.test(
  'revoking a key pauses its schedules with the reason, and credits do not resume them',
  async (t) => {
    const owner = await main.onboard()
    const by = await another(owner)
    const [one, off, own] = [
      await scheduled(owner, by),
      await scheduled(owner, by),
      await scheduled(owner, owner),
    ]
    await patch(off, { enabled: false })
    const gone = await revoke(owner, by.keyId)
    t.match(gone, { status: 200, body: { revoked: true, paused_schedules: [one.id] } })
    t.equal((gone.body['paused_schedules'] as string[]).length, 1, 'no disabled one, no other key')
    t.match(await look(one), because('key_revoked'))
    t.match(await look(off), { state: 'disabled' })
    t.match(await look(own), { state: 'enabled' })
    const friend = await main.onboard()
    const gift = { to_agent_id: owner.id, amount_usdc: 0.01 }
    t.equal(
      (await createAgentKeyRequester(main, friend)('POST', '/api/agent/send', gift)).status,
      200,
    )
    await main.balance(owner)
    t.match(await look(one), { state: 'paused' })
    const told = await sql`
    select data from outbox where agent_id = ${owner.id} and type = 'schedule.paused'`
    t.match(told[0]?.['data'], { schedule_id: one.id, reason: 'key_revoked' })
    await main.verify()
  },
)

t.test('a key that enables a schedule takes it over and is charged for its runs', async (t) => {
  const owner = await main.onboard()
  const by = await another(owner)
  const one = await scheduled(owner, by)
  await revoke(owner, by.keyId)
  t.match((await patch(one, { enabled: true })).body, { state: 'enabled', last_result: null })
  await run(one)
  t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
  const rest = await another(owner)
  t.match((await revoke(owner, rest.keyId)).body, { paused_schedules: [] })
  const capped = await another(owner, { cap_usdc: 1 })
  const refused = await patch({ guest: capped, id: one.id }, { enabled: false })
  t.equal(refused.status, 200)
  t.match(await patch({ guest: capped, id: one.id }, { enabled: true }), {
    status: 403,
    body: { code: 'insufficient_scope' },
  })
})

t.test('a run is rejected by the state of its key on every node', async (t) => {
  for (const [code, end] of [
    ['key_revoked', (id: string) => sql`update api_keys set revoked_at = now() where id = ${id}`],
    [
      'key_expired',
      (id: string) => sql`update api_keys set expires_at = now() - interval '1 s' where id = ${id}`,
    ],
  ] as const) {
    const owner = await main.onboard()
    const by = await another(owner)
    const one = await scheduled(owner, by)
    await run(one)
    await end(by.keyId)
    await time.pass(one.id)
    await paused(one)
    t.match(await look(one), because(code), code)
    t.strictSame(await charges(one), [SCHEDULED_RUN_USDC], 'nothing is charged')
  }
  await main.verify()
})

t.test('a rotation hands the schedules to the new key', async (t) => {
  const owner = await main.onboard()
  const by = await another(owner)
  const one = await scheduled(owner, by)
  const rotated = await createAgentKeyRequester(main, owner)('POST', '/api/keys/rotate', {
    key_id: by.keyId,
  })
  const next = String(rotated.body['id'])
  t.match(
    (await revoke(owner, by.keyId)).body,
    { paused_schedules: [] },
    'the old one in its grace',
  )
  await run(one)
  const [call] =
    await sql`select key_id from calls where owner = ${owner.id} and tool = ${SCHEDULED_TOOL}`
  t.equal(call?.['key_id'], next)
  t.match((await revoke(owner, next)).body, { paused_schedules: [one.id] })
})

t.test('a rotation after a leak pauses the schedules of the key, with the reason', async (t) => {
  const owner = await main.onboard()
  const by = await another(owner)
  const [one, off, own] = [
    await scheduled(owner, by),
    await scheduled(owner, by),
    await scheduled(owner, owner),
  ]
  await patch(off, { enabled: false })
  const leaked = { key_id: by.keyId, compromised: true }
  const rotated = await createAgentKeyRequester(main, owner)('POST', '/api/keys/rotate', leaked)
  t.match(rotated, { status: 200, body: { replaced_key_id: by.keyId } })
  t.strictSame(rotated.body['paused_schedules'], [one.id], 'no disabled one, no other key')
  t.match(await look(one), because('key_revoked'))
  t.match(await look(own), { state: 'enabled' })
  await enabledLate(one, by.keyId)
  await time.pass(one.id)
  await paused(one)
  t.strictSame(await charges(one), [])
  const heir = { id: owner.id, key: rotated.body.api_key, keyId: String(rotated.body['id']) }
  const again = await patch({ guest: heir, id: one.id }, { enabled: true })
  t.match(again, { status: 200, body: { state: 'enabled' } })
  await run(one)
  t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
  const [call] = await sql`
    select key_id from calls where owner = ${owner.id} and tool = ${SCHEDULED_TOOL} and cost_micros > 0`
  t.equal(call?.['key_id'], heir.keyId, 'charged to the key that enabled it')
  t.match((await revoke(owner, heir.keyId)).body, { paused_schedules: [one.id] })
  await main.verify()
})

t.test('a leaked key in its grace period hands no schedule to its replacement', async (t) => {
  const owner = await main.onboard()
  const by = await another(owner)
  const rotate = (json: object) =>
    createAgentKeyRequester(main, owner)('POST', '/api/keys/rotate', json)
  const next = String((await rotate({ key_id: by.keyId })).body['id'])
  const one = await scheduled(owner, by)
  await run(one)
  t.strictSame((await rotate({ key_id: next, grace_seconds: 60 })).body['paused_schedules'], [])
  const { body } = await rotate({ key_id: by.keyId, compromised: true })
  t.strictSame(body['paused_schedules'], [one.id])
  await enabledLate(one, by.keyId)
  await time.pass(one.id)
  await paused(one)
  t.match(await look(one), because('key_revoked'))
  t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
})

t.test('a schedule of a bound key runs in its Backpack, within its fuse', async (t) => {
  const owner = await main.onboard()
  const id = await backpack(main, owner, { fuse: { per_day_usdc: SCHEDULED_RUN_USDC } })
  const by = await bound(main, owner, id)
  const one = await scheduled(owner, by)
  t.match(await look(one), { backpack_id: id })
  await run(one)
  const state = async () =>
    (await createAgentKeyRequester(main, owner)('GET', `/api/backpack/${id}/state`)).body
  t.match(await state(), { spent_today_usdc: SCHEDULED_RUN_USDC, calls: 1 })
  await run(one)
  t.match((await look(one)).last_result, { ok: false, problem: { code: 'FUSE_TRIPPED' } })
  t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
  await createAgentKeyRequester(main, owner)('POST', `/api/backpack/${id}/revoke`, {})
  await time.pass(one.id)
  await paused(one)
  t.match(await look(one), because('REVOKED'))
  await main.verify()
})

t.test('a bound key sees only the schedules of its Backpack', async (t) => {
  const owner = await main.onboard()
  const [id, other] = [await backpack(main, owner), await backpack(main, owner)]
  const by = await bound(main, owner, id)
  const [mine, theirs, free] = [
    await scheduled(owner, by),
    await scheduled(owner, await bound(main, owner, other)),
    await scheduled(owner, owner),
  ]
  const ask = createAgentKeyRequester(main, by)
  const listed = (await ask('GET', '/api/task/schedules')).body['schedules'] as object[]
  t.match(listed, [{ schedule_id: mine.id }])
  t.equal(listed.length, 1)
  for (const { id: of } of [theirs, free])
    for (const [method, json] of [
      ['GET', undefined],
      ['PATCH', { enabled: false }],
      ['PATCH', { budget_usdc: 0.9 }],
      ['DELETE', undefined],
    ] as const)
      t.match(await ask(method, `${SCHEDULES_PATH}/${of}`, json), {
        status: 404,
        body: { code: 'schedule_not_found' },
      })
  t.match(await look(theirs), { state: 'enabled', budget_usdc: 1 })
  t.match(await ask('PATCH', `${SCHEDULES_PATH}/${mine.id}`, { enabled: false }), { status: 200 })
  t.match(await ask('DELETE', `${SCHEDULES_PATH}/${mine.id}`), { status: 200 })
})

t.test('a schedule created by an unbound key with a Backpack runs in that Backpack', async (t) => {
  const owner = await main.onboard()
  const id = await backpack(main, owner)
  const json = { interval: '5m', tool: SCHEDULED_TOOL }
  const headers = { 'x-backpack-id': id }
  const made = await createAgentKeyRequester(main, owner)('POST', SCHEDULES_PATH, json, { headers })
  t.match(made, { status: 200, body: { backpack_id: id } })
})

t.test('a schedule runs only tools that its Backpack lists', async (t) => {
  const owner = await main.onboard()
  const id = await backpack(main, owner, { tools: [SCHEDULED_TOOL] })
  const by = await bound(main, owner, id)
  const ask = createAgentKeyRequester(main, by)
  const asked = { interval: '5m', tool: SCHEDULED_TOOL }
  const unlisted = (tool: string) => ({
    status: 403,
    body: { code: 'TOOL_NOT_ALLOWED', backpack_id: id, tool, allowed_tools: [SCHEDULED_TOOL] },
  })
  t.match(
    await ask('POST', SCHEDULES_PATH, { ...asked, tool: 'hive_read', params: { query: 'x' } }),
    unlisted('hive_read'),
  )
  t.match(
    await ask('POST', SCHEDULES_PATH, { ...asked, write_to_hive: true }),
    unlisted('hive_write'),
  )
  const one = await scheduled(owner, by)
  const path = `${SCHEDULES_PATH}/${one.id}`
  t.match(await ask('PATCH', path, { write_to_hive: true }), unlisted('hive_write'))
  t.match(await look(one), { write_to_hive: false })

  const list = (tools: string[]) =>
    createAgentKeyRequester(main, owner)('PATCH', `/api/backpack/${id}`, { tools })
  await list([SCHEDULED_TOOL, 'hive_write'])
  t.match(await ask('PATCH', path, { write_to_hive: true }), { body: { write_to_hive: true } })
  const published = async () => {
    const [row] =
      await sql`select count(*)::int as n from hive_entries where agent_id = ${owner.id}`
    return row?.['n']
  }
  await run(one)
  t.equal(await published(), 1)
  await list([SCHEDULED_TOOL])
  await run(one)
  t.equal(await published(), 1, 'a list that has changed since holds the next run')
  t.match((await look(one)).last_result, { ok: true })
  await createAgentKeyRequester(main, owner)('POST', `/api/backpack/${id}/revoke`, {})
  t.match(await createAgentKeyRequester(main, owner)('PATCH', path, { write_to_hive: true }), {
    status: 403,
    body: { code: 'REVOKED' },
  })
  t.match(await createAgentKeyRequester(main, owner)('PATCH', path, { enabled: false }), {
    status: 200,
  })
  const enabled = await createAgentKeyRequester(main, owner)('PATCH', path, { enabled: true })
  t.match(enabled, { status: 403, body: { code: 'REVOKED' } }, 'nothing is enabled that never runs')
  const stranger = await main.onboard()
  const headers = { 'x-backpack-id': id }
  for (const [route, json] of [
    [SCHEDULES_PATH, asked],
    ['/api/task/start', { name: 'x', budget_usdc: 1 }],
  ] as const) {
    const theirs = await createAgentKeyRequester(main, stranger)('POST', route, json, { headers })
    t.match(theirs, { status: 404, body: { code: 'NOT_FOUND' } }, `${route} of another agent`)
    const ended = await createAgentKeyRequester(main, owner)('POST', route, json, { headers })
    t.match(ended, { status: 403, body: { code: 'REVOKED' } }, `${route} in one that has ended`)
  }
  await main.verify()
})

t.test('credentials in params are sealed at rest, never shown, and sent to the tool', async (t) => {
  const owner = await main.onboard()
  const secret = 'Bearer sk-live-0123456789'
  const plain = { url: `${listener.base}/` }
  const headers = { Authorization: secret, accept: 'application/json' }
  const one = await scheduled(owner, owner, {
    tool: 'data_retrieval',
    params: { ...plain, headers },
  })
  const shown = { ...plain, headers: { ...headers, Authorization: '[redacted]' } }
  t.match(await look(one), { params: shown })
  const kept = await sql`select params, sealed from schedule_params where schedule_id = ${one.id}`
  t.match(JSON.parse(String(kept[0]?.['params'])), shown)
  t.notOk(String(kept[0]?.['params']).includes('sk-live'))
  t.notOk(((kept[0] as Record<string, unknown>)['sealed'] as Buffer).includes('sk-live'))
  await run(one)
  t.strictSame(heard, [secret], 'the tool is given it')
  t.match((await patch(one, { name: 'renamed' })).body, { params: shown })
  const open = await scheduled(owner, owner, { tool: 'data_retrieval', params: plain })
  const [free] = await sql`select sealed from schedule_params where schedule_id = ${open.id}`
  t.equal(free?.['sealed'], null, 'nothing to seal')
})
