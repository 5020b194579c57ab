import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { SCHEDULE_RUN_TIMER } from '../../../actors/commands/schedule-aggregate-commands.ts'
import { MINUTE, SECOND, createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'
import { startRedisBehindProxy, redisServerPath } from '../../support/redis/redis-fault-proxy.ts'
import {
  connectReadyWebSocket,
  openSseReader,
} from '../../support/http/websocket-and-sse-clients.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

const AGENTS = 4
const EACH = 10
const EVERY_MS = 5 * MINUTE
const COST = 1_000
const CHANNEL = 'test:redis'
/** Minimum duration of a run, so that faults happen during runs. */
const TOOL_MS = 50
/** After this many checks without a new run the hints count as lost. */
const QUIET = 40
/** So often half a minute passes at most until a lost hint is given again. */
const MAX_MISSED_SLOTS = 10
/** Rounds in a row of which the other node has a part: by its own looks, each 30 s, it would not. */
const SHARED = 3
/** Between two signals. */
const PACE_MS = 25

/** Slots by their schedules. */
type Slots = ReadonlyMap<string, number>

/** Makes the next slots of an agent's schedules due, or those of `only`, and notifies its node. */
const comeDue: AggregateCommand<Slots | null, Slots> = {
  name: 'test.due',
  kind: 'agent',
  apply(turn, only) {
    const slots = new Map<string, number>()
    for (const { id: scheduleId, snapshot } of turn.all('schedule')) {
      const slot = snapshot.context.slot ?? 0
      if (only !== null && only.get(scheduleId) !== slot) continue
      const [id, input] = [`schedule:${scheduleId}`, { scheduleId, slot }]
      turn.timer({ id, dueAt: turn.now, command: SCHEDULE_RUN_TIMER, input })
      slots.set(scheduleId, slot)
    }
    return slots
  },
}

async function world(t: Test) {
  let [asked, besides] = [0, 0]
  const upstream = await startFixtureServer(t, ({ headers }, response) => {
    asked += 1
    if (headers['user-agent']?.includes('beside.test')) besides += 1
    setTimeout(() => sendJsonFixture(response, { answer: 42 }), TOOL_MS)
  })
  const redis = await startRedisBehindProxy(t)
  const settings = {
    REDIS_URL: redis.url,
    SSRF_ALLOW: `127.0.0.1:${upstream.port}`,
    STARTER_CREDITS_USDC: '5',
  }
  const real = createDatabaseAdjustedClock()
  let ahead = 0
  const clock = { ...real, mono: () => real.mono() + ahead }
  const main = await startInProcessTestStation(t, settings, { clock })
  const beside = await spawnSecondNode(t, main, { ...settings, PUBLIC_URL: 'http://beside.test' })
  const { sql } = main
  const guests = await Promise.all(Array.from({ length: AGENTS }, () => main.onboard()))
  const tool = { tool: 'data_retrieval', params: { url: `${upstream.base}/` } }
  const making = guests.flatMap(({ key }) =>
    Array.from({ length: EACH }, () =>
      main.ask('POST', '/api/task/schedule', { key, json: { interval: '5m', ...tool } }),
    ),
  )
  for (const { status, text } of await Promise.all(making))
    if (status !== 200) throw new Error(text)

  const runs = async () => (await sql`select 1 from schedule_runs`).length
  const due = (only: Slots | null) =>
    Promise.all(guests.map(({ id }) => main.station.actors.ask(id, comeDue, only)))
  /** A command that is open meanwhile would count as unanswered for half a minute. */
  const passHalfMinute = () => {
    if (main.station.actors.stats().open > 0) return false
    ahead += 30 * SECOND
    return true
  }
  let rounds = 0
  return {
    ...{ main, beside, redis, guests },
    /** Runs one slot of each schedule, with a fault during the runs. */
    async round(meanwhile: () => Promise<void> = async () => {}): Promise<void> {
      rounds += 1
      const before = asked
      const slots = new Map((await due(null)).flatMap((some) => [...some]))
      await waitUntilTrue('runs begin', () => asked > before)
      await meanwhile()
      let [last, quiet, passed] = [0, 0, 0]
      await waitUntilTrue(`round ${rounds}`, async () => {
        const done = await runs()
        quiet = done === last ? quiet + 1 : 0
        if (done !== last) passed = 0
        last = done
        if (quiet === QUIET) {
          if (passed === MAX_MISSED_SLOTS) throw new Error('what is due is not hinted at again')
          // Half a minute later, by the clock, slots that are still due get a hint again.
          await waitUntilTrue('no command is open', passHalfMinute)
          ;[quiet, passed] = [0, passed + 1]
          await due(slots)
        }
        return done >= rounds * AGENTS * EACH
      })
    },
    rounds: () => rounds,
    /** How many runs the other node has done. */
    besides: () => besides,
  }
}
type World = Awaited<ReturnType<typeof world>>

/** Each slot was charged once, and none between the first and the last was left out. */
async function exact(t: Test, { main, guests, rounds }: World): Promise<void> {
  const rows = await main.sql`
    select r.schedule_id, (extract(epoch from r.slot) * 1000)::float8 as slot, r.ok,
           count(c.call_id)::int as calls, sum(c.cost_micros)::int as cost
      from schedule_runs r left join calls c on c.owner = r.agent_id::text and c.idempotency_key
           = 'schedule ' || r.schedule_id || ' ' || (extract(epoch from r.slot) * 1000)::bigint
     group by r.schedule_id, r.slot, r.ok order by r.schedule_id, r.slot`
  const wrong = rows.filter(({ ok, calls, cost }) => !ok || calls !== 1 || cost !== COST)
  t.strictSame(wrong, [], 'each slot is charged once')
  const gaps = rows.filter(({ schedule_id: id, slot }, at) => {
    const before = rows[at - 1]
    return before?.['schedule_id'] === id && slot - before?.['slot'] !== EVERY_MS
  })
  t.strictSame(gaps, [], 'no slot is left out')
  t.equal(rows.length, rounds() * AGENTS * EACH)
  for (const guest of guests) {
    const spent = rounds() * EACH * COST
    t.equal(Math.round((await main.balance(guest)) * 1e6), 5e6 - spent)
  }
  await main.verify()
}

/** Readers on the other node, of a channel and of the inbox of an agent. */
async function readers(t: Test, { main, beside, guests }: World) {
  const [hearer] = guests as [TestAgent]
  const publisher = await main.onboard()
  const socket = await connectReadyWebSocket(t, beside.url, hearer.key)
  await socket.ask({ type: 'subscribe', channels: [CHANNEL] })
  const stream = await openSseReader(
    t,
    `${beside.url}/api/signal/stream?channels=${CHANNEL}`,
    hearer.key,
  )
  await stream.next(({ event }) => event === 'ready')
  let [published, running] = [0, true]
  const publishing = (async () => {
    while (running) {
      const json = { channel: CHANNEL, type: 'insight', payload: { n: published } }
      const { status, text } = await main.ask('POST', '/api/signal/publish', {
        key: publisher.key,
        json,
      })
      if (status !== 200) throw new Error(text)
      published += 1
      await pause(PACE_MS)
    }
  })()
  return {
    socket,
    stream,
    /** Stops publishing; both readers must have received everything by then, in order. */
    async end(): Promise<void> {
      running = false
      await publishing
      const all = Array.from({ length: published }, (_, n) => n)
      const last = (frames: readonly unknown[]) => frames.length >= published
      await waitUntilTrue('the socket hears all', () => last(socket.events('signal')))
      await waitUntilTrue('the stream hears all', () =>
        last(stream.events.filter(({ event }) => event === 'signal')),
      )
      const n = (data: unknown) => (data as { payload: { n: number } }).payload.n
      t.strictSame(
        socket.events('signal').map(({ data }) => n(data)),
        all,
        `${published} signals on the socket`,
      )
      const heard = stream.events.filter(({ event }) => event === 'signal')
      t.strictSame(
        heard.map(({ data }) => n(data)),
        all,
        'and on the stream',
      )
      const told = await main.sql`
        select id::text from outbox where agent_id = ${hearer.id} and type = 'schedule.result' order by outbox.id`
      await waitUntilTrue(
        'the results are sent',
        () => socket.events('schedule').length >= told.length,
      )
      t.strictSame(
        socket.events('schedule').map(({ id }) => id),
        told.map(({ id }) => id),
        `${told.length} results of runs`,
      )
    },
  }
}

const skip = redisServerPath === undefined ? 'no redis-server is installed' : false

t.test('schedules on two nodes during Redis outages', { skip }, async (t) => {
  const all = await world(t)
  const { redis, round, besides } = all
  const heard = await readers(t, all)

  await t.test('run on both nodes', async (t) => {
    for (let rounds = 0; besides() === 0 && rounds < 20; rounds += 1) await round()
    t.ok(besides() > 0, `${besides()} runs on the other node`)
  })

  await t.test('continue when Redis loses all data', async (t) => {
    for (let rounds = 0; rounds < 3; rounds += 1) await round(() => redis.flush())
    await exact(t, all)
  })

  await t.test('continue when Redis is killed', async (t) => {
    for (let rounds = 0; rounds < 3; rounds += 1) await round(() => redis.kill())
    await exact(t, all)
  })

  await t.test('continue while Redis is unreachable or unresponsive', async (t) => {
    for (const mood of ['cut', 'silent'] as const) {
      redis.set(mood)
      await round()
      await round()
      redis.set('open')
      await exact(t, all)
    }
  })

  await t.test('are spread over both nodes again', async (t) => {
    let shared = 0
    for (let rounds = 0; shared < SHARED && rounds < 50; rounds += 1) {
      const before = besides()
      await round()
      shared = besides() > before ? shared + 1 : 0
    }
    t.equal(shared, SHARED, 'rounds in a row on both nodes')
    await exact(t, all)
  })

  await t.test('send every event to readers on the other node', async () => {
    await heard.end()
  })
})
