import { randomInt } from 'node:crypto'
import t, { type Test } from 'tap'
import { MINUTE, createDatabaseAdjustedClock, type Clock } from '../../../core/clock.ts'
import {
  createScheduleSlotDriver,
  waitUntilTrue,
} from '../../support/schedules/make-schedule-slots-due.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type ChildProcessStation,
} from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

const AGENTS = 10
const EACH = 20
const START = 5
const EVERY_MS = 5 * MINUTE
/** Costs of a run of the two tools, in micro-USDC. */
const COSTS = { hive_trending: 6_000, data_retrieval: 1_000 } as const

/** A clock that stays five minutes ahead of the database, despite measurements. */
const wrongClock = (): Clock => {
  const clock = createDatabaseAdjustedClock()
  return { ...clock, now: () => clock.now() + 5 * MINUTE, adjust: () => {} }
}

const upstream = await startFixtureServer(t, (_request, response) => {
  setTimeout(() => sendJsonFixture(response, { answer: 42 }), randomInt(20, 120))
})
const settings = {
  SSRF_ALLOW: `127.0.0.1:${upstream.port}`,
  STARTER_CREDITS_USDC: String(START),
}
const main = await startInProcessTestStation(t, settings, { clock: wrongClock() })
const time = createScheduleSlotDriver(t, main.database)
const { sql } = main
const spawned = () => spawnSecondNode(t, main, settings)
const [doomed, alsoDoomed] = await Promise.all([spawned(), spawned()])
let survivor: ChildProcessStation

async function populate(): Promise<TestAgent[]> {
  const guests = await Promise.all(Array.from({ length: AGENTS }, () => main.onboard()))
  await Promise.all(
    guests.map(async ({ key }) => {
      for (let n = 0; n < EACH; n += 1) {
        const tool = n % 2 === 0 ? 'hive_trending' : 'data_retrieval'
        const params = n % 2 === 0 ? {} : { url: `${upstream.base}/` }
        const body = { name: `s${n}`, interval: '5m', tool, params }
        const { status, text } = await main.ask('POST', '/api/task/schedule', { key, json: body })
        if (status !== 200) throw new Error(text)
      }
    }),
  )
  return guests
}

/** Kills one node while all nodes are working. */
async function killAmidst(node: ChildProcessStation): Promise<void> {
  const seen = upstream.requests.length
  await time.pass()
  await waitUntilTrue('the slots run', () => upstream.requests.length > seen + 30)
  await node.end('SIGKILL')
}

interface Ran {
  readonly scheduleId: string
  readonly slot: number
  readonly tool: keyof typeof COSTS
  readonly calls: number
  readonly cost: number
}

const allRuns = async (): Promise<Ran[]> =>
  (
    await sql`
      select r.schedule_id, (extract(epoch from r.slot) * 1000)::float8 as slot, min(c.tool) as tool,
             count(c.call_id)::int as calls, sum(c.cost_micros)::int as cost
        from schedule_runs r left join calls c on c.owner = r.agent_id::text and c.idempotency_key
             = 'schedule ' || r.schedule_id || ' ' || (extract(epoch from r.slot) * 1000)::bigint
       where r.ok group by r.schedule_id, r.slot order by r.schedule_id, r.slot`
  ).map((row) => ({
    scheduleId: row['schedule_id'],
    slot: row['slot'],
    tool: row['tool'],
    calls: row['calls'],
    cost: row['cost'],
  }))

/** Each slot was charged once, and none between the first and the last was left out. */
async function exact(t: Test, guests: readonly TestAgent[]): Promise<void> {
  const runs = await allRuns()
  const wrong = runs.filter(({ calls, cost, tool }) => calls !== 1 || cost !== COSTS[tool])
  t.strictSame(wrong, [], `${runs.length} slots are charged once`)
  const gaps = runs.filter(({ scheduleId, slot }, at) => {
    const before = runs[at - 1]
    return before?.scheduleId === scheduleId && slot - before.slot !== EVERY_MS
  })
  t.strictSame(gaps, [], 'no slot is left out')
  t.equal(new Set(runs.map(({ scheduleId }) => scheduleId)).size, AGENTS * EACH)
  t.ok(runs.length > 2 * AGENTS * EACH, `${runs.length} runs`)
  const spent = runs.reduce((all, { cost }) => all + cost, 0)
  let left = 0
  for (const guest of guests) left += Math.round((await main.balance(guest)) * 1e6)
  t.equal(left, AGENTS * START * 1e6 - spent)
}

t.test(
  '200 schedules on three nodes, one with a clock five minutes off and two that are killed',
  async (t) => {
    const guests = await populate()
    const begun = performance.now()
    t.equal((await sql`select 1 from timers where command = 'schedule.run'`).length, AGENTS * EACH)
    t.strictSame([...(await sql`select 1 from schedule_runs`)], [], 'a wrong clock begins nothing')
    await killAmidst(doomed)
    t.comment(`the first is gone after ${Math.round(performance.now() - begun)} ms`)
    const third = spawned()
    await killAmidst(alsoDoomed)
    survivor = await third
    t.comment(`the second too after ${Math.round(performance.now() - begun)} ms`)
    await time.settled()
    await time.pass()
    await time.settled()
    t.comment(`all slots have ended after ${Math.round(performance.now() - begun)} ms`)
    await exact(t, guests)
    await main.verify()
  },
)

t.test('a schedule deleted on one node while another runs it ends with that run', async (t) => {
  const guest = await main.onboard()
  const beside = survivor
  const ids = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const params = { url: `${upstream.base}/` }
      const json = { interval: '5m', tool: 'data_retrieval', params }
      const { body } = await main.ask('POST', '/api/task/schedule', { key: guest.key, json })
      return String(body['schedule_id'])
    }),
  )
  await time.pass()
  const gone = await Promise.all(
    ids.map((id, n) =>
      (n % 2 === 0 ? main : beside).ask('DELETE', `/api/task/schedule/${id}`, { key: guest.key }),
    ),
  )
  t.strictSame(
    gone.map(({ status }) => status),
    ids.map(() => 200),
  )
  await time.settled()
  t.strictSame([...(await sql`select 1 from timers where aggregate_id = ${guest.id}`)], [])
  const look = async () =>
    Promise.all(
      ids.map(async (id) => {
        const { body } = await beside.ask('GET', `/api/task/schedule/${id}`, { key: guest.key })
        return [body['state'], Number(body['runs']) <= 1]
      }),
    )
  t.strictSame(
    await look(),
    ids.map(() => ['cancelled', true]),
  )
  await main.verify()
})
