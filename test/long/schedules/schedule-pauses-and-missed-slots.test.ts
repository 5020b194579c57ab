import { DAILY_BONUS_LIMIT } from '../../../domain/pricing.ts'
import t from 'tap'
import { failScheduleRunCommand } from '../../../actors/commands/schedule-aggregate-commands.ts'
import { MINUTE } from '../../../core/clock.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc, ZERO_MICROS } from '../../../core/money.ts'
import { topUpFleetCommand } from '../../../payments/commands/fleet-commands.ts'
import { createDeadLetterStore } from '../../../persistence/dead-letter-store.ts'
import { verifyDatabaseInvariants } from '../../../persistence/verify/verify-database-invariants.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'
import {
  SCHEDULED_RUN_USDC,
  startScheduleStation,
  SCHEDULES_PATH,
  type AgentWithSchedule,
} from '../../support/schedules/test-station-with-schedules.ts'
import type { TestAgent } from '../../support/station/start-test-station.ts'

const { main, time, ask, sql, slow, ...does } = await startScheduleStation(t)
const {
  create,
  made,
  look,
  patch,
  budgeted,
  begun,
  ran,
  run,
  charges,
  shut,
  open,
  putOn,
  upstream,
} = does

const slotOf = async (one: AgentWithSchedule) =>
  Date.parse(String((await look(one))['next_run_at']))

/** The run of a slot finds too few credits and reports that. */
const missed = (
  { guest, id: scheduleId }: AgentWithSchedule,
  slot: number,
  needed = SCHEDULED_RUN_USDC,
) =>
  main.station.actors.ask(guest.id, failScheduleRunCommand, {
    ...{
      scheduleId,
      slot,
      at: slot,
      callId: null,
      cost: ZERO_MICROS,
      budget: fromUsdc(1),
      result: null,
    },
    error: { code: 'payment_required', needed: fromUsdc(needed) },
  })

/** A friend sends credits, and they have arrived. */
async function given({ guest }: AgentWithSchedule, amount_usdc: number): Promise<void> {
  const { key } = await main.onboard()
  const json = { to_agent_id: guest.id, amount_usdc }
  t.equal((await ask('POST', '/api/agent/send', { key, json })).status, 200)
  await main.balance(guest)
}

/** A pool of two members, whose schedules find no credits anywhere. */
async function shortOfPool() {
  const [owner, late] = [await main.onboard(0), await main.onboard(0)]
  const { body } = await ask('POST', '/api/fleet/create', { key: owner.key, json: { name: 'x' } })
  const fleetId = String(body['fleet_id'])
  const join = (agent: TestAgent) =>
    ask('POST', '/api/fleet/add-agent', {
      key: owner.key,
      json: { fleet_id: fleetId, agent_id: agent.id, agent_key: agent.key },
    })
  const stopped = async (guest: TestAgent) => {
    const created = await create(guest)
    const one = { guest, id: String(created.body['schedule_id']) }
    await time.pass(one.id)
    await waitUntilTrue('it pauses', async () => (await look(one))['state'] === 'paused')
    return one
  }
  t.equal((await join(owner)).status, 200)
  const first = await stopped(owner)
  const second = await stopped(late)
  t.equal((await join(late)).status, 200)
  await main.balance(late)
  const fill = (usdc: number, logIndex: number) =>
    main.station.actors.ask(fleetId, topUpFleetCommand, {
      tx: `0x${fleetId.replaceAll('-', '').padStart(64, '0')}`,
      transfers: [{ logIndex, amount: fromUsdc(usdc) }],
      bonusLeft: DAILY_BONUS_LIMIT,
    })
  return { both: [first, second] as const, fill }
}

t.test('a schedule paused for lack of credits resumes when the pool is topped up', async (t) => {
  const { both, fill } = await shortOfPool()
  await main.verify()
  await fill(0.0059, 0)
  t.match(await main.sql`select count(*)::int as n from underfunded_schedules`, [{ n: 2 }])
  await fill(0.5, 1)
  for (const one of both) {
    await waitUntilTrue('it goes on', async () => (await look(one))['state'] === 'enabled')
    await run(one)
    t.strictSame(await charges(one), [SCHEDULED_RUN_USDC], 'paid by the pool')
  }
  await fill(0.001, 2)
  await waitUntilTrue('nothing waits', async () => {
    return (await main.sql`select 1 from underfunded_schedules`).length === 0
  })
  await main.verify()
})

t.test('a budget lowered during a run applies to the next one', async (t) => {
  const one = await made(slow)
  shut()
  await begun(one)
  await budgeted(one, 0.0005)
  open()
  await ran(one, 1)
  t.strictSame(await charges(one), [0.001])
  await run(one)
  t.match((await look(one)).last_result, { problem: { code: 'schedule_budget_exceeded' } })
  await main.verify()
})

t.test(
  'a slot whose timer is a dead letter is missed, and charged once after its replay',
  async (t) => {
    const one = await made()
    const letters = createDeadLetterStore(sql)
    const { id: aggregateId } = one.guest
    const id = `schedule:${one.id}`
    const [timer] = await sql<{ at: string }[]>`
      select due_at::text as at from timers where aggregate_id = ${aggregateId} and id = ${id}`
    await letters.bury({ aggregateId, id, dueAt: timer?.at ?? '', reason: 'a test' })
    const broken = (await verifyDatabaseInvariants(sql)).filter(
      ({ broken: rows }) => rows.length > 0,
    )
    t.match(broken, [{ rule: 'S1', broken: [{ id: one.id, timer: null }] }])
    await time.pass(one.id)
    await time.settled()
    t.equal((await look(one))['runs'], 0)
    const [letter] = await letters.list()
    await letters.replay(letter?.id ?? '')
    await run(one)
    t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
    await main.verify()
  },
)

t.test(
  'a slot already answered under the key of its lost run is missed and has no further effect',
  async (t) => {
    const one = await made(slow)
    const { next_run_at: slot } = await look(one)
    const key = `schedule ${one.id} ${Date.parse(String(slot))}`
    const response = JSON.stringify({ status: 503, body: { code: 'outcome_unknown' } })
    await sql`
    insert into calls (owner, call_id, agent_id, operation, tool, rail, cost_micros, status, error_code,
                       ms, ghost, idempotency_key, request_hash, response, at)
    values (${one.guest.id}, ${newUuidV7(Date.now())}, ${one.guest.id}, 'refuel', 'data_retrieval', 'credits',
            0, 'failed', 'outcome_unknown', 1, false, ${key}, ${key}, ${response}, now())`
    const before = upstream.requests.length
    await time.pass(one.id)
    await waitUntilTrue(
      'the next slot comes',
      async () => (await look(one))['next_run_at'] !== slot,
    )
    t.match((await look(one)).last_result, {
      ...{ ok: false, slot, cost_usdc: 0, call_id: null },
      problem: { code: 'outcome_unknown' },
    })
    t.equal(upstream.requests.length, before, 'its tool did not run')
    await run(one)
    t.strictSame(await charges(one), [0.001])
    await main.verify()
  },
)

t.test(
  'a running slot is charged once although it is disabled and enabled meanwhile',
  async (t) => {
    const one = await made(slow)
    shut()
    await begun(one)
    const { next_run_at: slot } = await look(one)
    await patch(one, { enabled: false })
    putOn(6 * MINUTE)
    const { body } = await patch(one, { enabled: true })
    t.not(body['next_run_at'], slot, 'its slot is over, and another comes')
    open()
    await ran(one, 1)
    t.strictSame(await charges(one), [0.001])
    t.match(await look(one), { state: 'enabled', next_run_at: body['next_run_at'] })
    await run(one)
    t.strictSame(await charges(one), [0.001, 0.001], 'and so is the next one')
  },
)

t.test('a run that ends without credits while its schedule is paused sends no event', async (t) => {
  const guest = await main.onboard(0)
  const { key, id: agent_id } = guest
  const fleet = await ask('POST', '/api/fleet/create', { key, json: { name: 'x' } })
  const json = { fleet_id: fleet.body['fleet_id'], agent_id, agent_key: key }
  t.equal((await ask('POST', '/api/fleet/add-agent', { key, json })).status, 200)
  await main.balance(guest)
  const { body } = await create(guest)
  const one = { guest, id: String(body['schedule_id']) }
  const late = await slotOf(one)
  await patch(one, { enabled: false })
  putOn(late - Date.now() + MINUTE)
  await patch(one, { enabled: true })
  const slot = await slotOf(one)
  t.ok(slot > late, 'one run is under way, and another comes')
  await missed(one, slot)
  t.match(await look(one), { state: 'paused' })
  const waiting = () =>
    main.sql`select slot from underfunded_schedules where schedule_id = ${one.id}`
  t.match([...(await waiting())], [{ slot: BigInt(slot) }])
  await missed(one, late)
  t.match(await look(one), { state: 'paused' })
  t.match([...(await waiting())], [{ slot: BigInt(slot) }])
  const told = await main.sql`
    select 1 from outbox where agent_id = ${guest.id} and type = 'schedule.paused'`
  t.equal(told.length, 1)
  await main.verify()
})

t.test(
  'credits held by another call do not pause the schedule: the slot waits for that call',
  async (t) => {
    const one = await made({}, 0.03)
    shut()
    const before = upstream.requests.length
    const calling = main.call(one.guest, 'agent_see', { url: `${upstream.base}/gone` })
    await waitUntilTrue('the call runs', () => upstream.requests.length > before)
    const slot = await slotOf(one)
    await missed(one, slot)
    t.match(await look(one), { state: 'enabled', last_result: null })
    t.equal(await slotOf(one), slot)
    open()
    t.match((await calling).body, { refunded: true })
    await run(one)
    t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
    await main.verify()
  },
)

t.test('credits that arrive while a run is rejected for lack of credits are used', async (t) => {
  const one = await made({}, 0.001)
  const slot = await slotOf(one)
  await given(one, 0.01)
  await missed(one, slot)
  t.match(await look(one), { state: 'enabled', last_result: null })
  await run(one)
  t.strictSame(await charges(one), [SCHEDULED_RUN_USDC])
  await missed(one, await slotOf(one))
  t.match(await look(one), { state: 'paused' }, 'what is left is too little')
  await main.verify()
})

t.test('credits that arrive while a call holds the rest resume a schedule', async (t) => {
  const page = { tool: 'agent_see', url: `${upstream.base}/gone` }
  const one = await made({ tool: page.tool, params: { url: page.url } }, 0.03)
  shut()
  const before = upstream.requests.length
  const { key } = one.guest
  const calling = ask('POST', '/api/refuel/stream', { key, json: page })
  await waitUntilTrue('the call runs', () => upstream.requests.length > before)
  await missed(one, await slotOf(one), 0.031)
  t.match(await look(one), { state: 'paused' })
  await given(one, 0.01)
  t.match(await look(one), { state: 'enabled' })
  open()
  await calling
  t.equal(await main.balance(one.guest), 0.04)
  await main.verify()
})

t.test('a run needs the actual price, not the list price of its tool', async (t) => {
  const params = { content: 'the depot closes at nine', type: 'fact' }
  const one = await made({ tool: 'vault_write', params }, 0.0005)
  await time.pass(one.id)
  await waitUntilTrue('it pauses', async () => (await look(one))['state'] === 'paused')
  await given(one, 0.01)
  t.match(await look(one), { state: 'enabled' })
  await run(one)
  t.strictSame(await charges(one), [0.001])
})

t.test('a key cannot make a schedule of another key spend more than its own limit', async (t) => {
  const one = await made({ budget_usdc: SCHEDULED_RUN_USDC })
  const path = `${SCHEDULES_PATH}/${one.id}`
  const keyed = async (json: object) => {
    const { body } = await ask('POST', '/api/keys', { key: one.guest.key, json })
    return (change: object) => ask('PATCH', path, { key: body.api_key, json: change })
  }
  const denied = { status: 403, body: { code: 'insufficient_scope' } }
  const narrow = { scopes: ['tasks'] }
  const capped = { cap_usdc: 0.01, scopes: ['tasks', 'tools'] }
  for (const change of [await keyed(narrow), await keyed(capped)]) {
    t.match(await change({ budget_usdc: 1 }), denied)
    t.match(await change({ enabled: false, name: 'quiet', budget_usdc: SCHEDULED_RUN_USDC }), {
      status: 200,
    })
    t.match(await change({ enabled: true }), denied)
    t.match(await look(one), { state: 'disabled', budget_usdc: SCHEDULED_RUN_USDC })
    t.equal((await patch(one, { enabled: true })).status, 200)
  }
})
