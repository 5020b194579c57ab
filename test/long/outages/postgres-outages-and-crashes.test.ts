import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { openPostgresPool } from '../../../persistence/postgres/postgres-connection-pool.ts'
import { parseDatabaseUrl } from '../../../persistence/postgres/database-url.ts'
import { readPostmasterPidFile } from '../../../persistence/postgres/postmaster-pid-file.ts'
import { getAgentBalanceCommand } from '../../../payments/commands/agent-account-commands.ts'
import type { TestReply } from '../../support/http/test-http-client.ts'
import { startPostgresFaultProxy } from '../../support/postgres/postgres-fault-proxy.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import {
  assertLedgerSound,
  spawnTestStationProcess,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import { findFreePort } from '../../../chaos/free-port.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

const TOOL = 'hive_trending'
/** Generous: it distinguishes an answer from a hang, not a fast machine from a busy one. */
const STATION_OUTAGE_TIMEOUT_MS = 10_000
const RECOVERY_MS = 30_000
/** The pool by default and its transactions, the lane, the line that listens, and the jobs. */
const CONNECTIONS = 10 + 6 + 3 + 1 + 12

/** Replies that a caller may get without the database: a result, or 503 with a retry time. */
function prompt(t: Test, answers: readonly TestReply[]): void {
  for (const { status, headers, body, ms, text } of answers) {
    if (status === 200) continue
    t.match({ status, code: body.code }, { status: 503, code: 'unavailable' }, text.slice(0, 200))
    t.ok(Number(headers['retry-after']) >= 1, 'says when to come back')
    t.ok(ms < STATION_OUTAGE_TIMEOUT_MS, `answered after ${Math.round(ms)} ms`)
  }
}

/** Sends requests until the service works again; returns the time in milliseconds. */
async function recovery(station: TestStation, guest: TestAgent): Promise<number> {
  const started = performance.now()
  for (;;) {
    const { status } = await station.call(guest, TOOL)
    if (status === 200) return performance.now() - started
    if (performance.now() - started > 60_000) throw new Error('the service does not serve again')
    await wait(50)
  }
}

/** Cut connections are released; a closing one and its replacement may be seen together briefly. */
async function givenBack(t: Test, connections: () => number, most: number): Promise<void> {
  const started = performance.now()
  while (connections() > most && performance.now() - started < RECOVERY_MS) await wait(50)
  t.ok(connections() <= most, `${connections()} connections of ${most}`)
}

for (const mood of ['cut', 'silent'] as const) {
  t.test(`a database that is ${mood} causes only 503, and no restart`, async (t) => {
    const database = await createTestDatabase(t)
    const line = await startPostgresFaultProxy(t, database.settings.databaseUrl)
    const main = await startInProcessTestStation(
      t,
      {},
      { database: { ...database, settings: line } },
    )
    const guest = await main.onboard()
    t.equal((await main.call(guest, TOOL)).status, 200)
    let running = true
    const load = Array.from({ length: 8 }, async () => {
      const answers: TestReply[] = []
      while (running) answers.push(await main.call(guest, TOOL))
      return answers
    })
    line.set(mood)
    const paths: [string, string, object?][] = [
      ['GET', '/api/credits/balance'],
      ['GET', '/api/task/active'],
      ['GET', '/api/agent/me'],
      ['POST', '/api/task/start', { name: 'x', budget_usdc: 1 }],
      ['POST', '/api/refuel', { tool: TOOL }],
      ['POST', '/api/refuel/stream', { tool: TOOL }],
      ['POST', '/api/keys', {}],
      ['POST', '/api/onboard', { name: 'late' }],
    ]
    if (mood === 'cut') {
      paths.push(['POST', '/api/refuel', { tool: 'hive_read', query: 'x' }])
      paths.push(['POST', '/api/refuel', { tool: 'hive_trending', limit: 2 }])
      paths.push(['POST', '/api/refuel', { tool: 'agent_reputation', agent_id: guest.id }])
    }
    const lost = await Promise.all(
      paths.map(([method, path, body]) => main.ask(method, path, { key: guest.key, json: body })),
    )
    t.strictSame(
      lost.map(({ status }, at) => [paths[at]?.[1], status]),
      paths.map(([, path]) => [path, 503]),
    )
    prompt(t, lost)
    const health = await main.ask('GET', '/api/network/health')
    t.match(health, {
      status: 503,
      body: { status: 'degraded', dependencies: { postgres: { ok: false } } },
    })
    t.equal((await main.ask('GET', '/readyz')).status, 503, 'nothing should be sent here')
    for (const path of ['/livez', '/healthz', '/health'])
      t.match(await main.ask('GET', path), { status: 200, body: { status: 'ok' } }, path)
    t.ok(health.ms < STATION_OUTAGE_TIMEOUT_MS, `health answers after ${Math.round(health.ms)} ms`)
    t.equal((await main.ask('GET', '/api/tools')).status, 200, 'what needs no database is served')
    running = false
    const answers = (await Promise.all(load)).flat()
    prompt(t, answers)
    t.ok(answers.some(({ status }) => status === 503))
    line.set('open')
    const back = await recovery(main, guest)
    t.ok(back < RECOVERY_MS, `serves again after ${Math.round(back)} ms`)
    t.equal((await main.ask('GET', '/api/network/health')).status, 200)
    t.equal((await main.ask('GET', '/readyz')).status, 200)
    await givenBack(t, () => line.connections(), CONNECTIONS)
    await main.verify()
    const { body } = await main.ask('GET', '/api/credits/balance', { key: guest.key })
    t.match(body, { held_usdc: 0 }, 'no hold is left behind')
    const charged =
      await database.sql`select count(*)::int as n from calls where status = 'ok' and tool is not null`
    const told = 2 + answers.filter(({ status }) => status === 200).length
    t.ok(charged[0]?.['n'] >= told, `${charged[0]?.['n']} charged, ${told} told`)
  })
}

t.test('a full mailbox rejects callers and continues', async (t) => {
  const main = await startInProcessTestStation(t)
  const [busy, calm] = [await main.onboard(), await main.onboard()]
  const asked = Array.from({ length: LIMITS.mailboxMaxCommands + 10 }, () =>
    main.station.actors.ask(busy.id, getAgentBalanceCommand, {}).then(
      () => 'answered',
      (error: { code: string; details: object }) => error.code,
    ),
  )
  const [turned, other] = [main.call(busy, TOOL), main.call(calm, TOOL)]
  const outcomes = await Promise.all(asked)
  t.equal(outcomes.filter((outcome) => outcome === 'overloaded').length, 10)
  t.equal(outcomes.filter((outcome) => outcome === 'answered').length, LIMITS.mailboxMaxCommands)
  t.ok([200, 503].includes((await turned).status))
  t.equal((await other).status, 200, 'another agent does not notice')
  t.equal((await main.call(busy, TOOL)).status, 200)

  // The way out through HTTP: a database that is slow keeps a mailbox full.
  await main.sql
    .begin(async (tx) => {
      await tx`lock table journal in exclusive mode`
      const waiting = Array.from({ length: LIMITS.mailboxMaxCommands }, () =>
        main.station.actors.ask(busy.id, getAgentBalanceCommand, {}).catch(() => null),
      )
      const refused = await main.ask('GET', '/api/credits/balance', { key: busy.key })
      t.match(refused, {
        status: 503,
        body: { code: 'overloaded' },
        headers: { 'retry-after': '1' },
      })
      await Promise.all(waiting)
    })
    .catch((error: unknown) => t.fail(String(error)))
  t.equal((await main.call(busy, TOOL)).status, 200)
  await main.verify()
})

/** A call of its own key: sent again until its outcome is known. */
interface Try {
  readonly key: string
  answer: TestReply | null
}

let pressures = 0

/** Workers that never stop calling; each try is known by its Idempotency-Key. */
function pressure(station: () => TestStation, guest: TestAgent, width: number) {
  const tries: Try[] = []
  const name = (pressures += 1)
  let running = true
  const workers = Array.from({ length: width }, async (_, worker) => {
    for (let step = 0; running; step += 1) {
      const one: Try = { key: `${name}-${worker}-${step}`, answer: null }
      tries.push(one)
      const fields = { target_agent_id: guest.id, message: one.key }
      const answer = await station()
        .call(guest, 'agent_ping', fields, { 'idempotency-key': one.key })
        .catch(() => null)
      one.answer = answer
      if (answer?.status !== 200) await wait(200)
    }
  })
  return {
    tries,
    acknowledged: () => tries.filter(({ answer }) => answer?.status === 200),
    async stop() {
      running = false
      await Promise.all(workers)
    },
  }
}

/** Every attempt ends as one charged call; acknowledged calls keep their answer. */
async function settled(
  t: Test,
  station: TestStation,
  guest: TestAgent,
  tries: readonly Try[],
): Promise<void> {
  const left = [...tries]
  const deadline = performance.now() + 60_000
  const worker = async () => {
    for (let one = left.pop(); one !== undefined; one = left.pop()) {
      const { key, answer } = one
      const fields = { target_agent_id: guest.id, message: key }
      const send = () => station.call(guest, 'agent_ping', fields, { 'idempotency-key': key })
      let again = await send()
      // "Come back later" is no outcome: the same key is sent until there is one.
      while ([409, 503].includes(again.status) && performance.now() < deadline) {
        await wait(200)
        again = await send()
      }
      if (answer?.status === 200) {
        if (again.text !== answer.text) t.equal(again.text, answer.text, `${key} is answered alike`)
      } else if (again.status !== 200) {
        t.fail(`${key}: ${answer?.status} at first, then ${again.status} ${again.text}`)
      }
    }
  }
  await Promise.all(Array.from({ length: 16 }, worker))
}

const postmaster = (dataDir: string) => readPostmasterPidFile(join(dataDir, 'pg18'))

/** The postmaster and its children: it is ours, since it was started for this test. */
function family(pid: number): number[] {
  const children = readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return /\) \w (\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8'))?.[1] === String(pid)
    } catch {
      return false
    }
  })
  return [pid, ...children.map(Number)]
}

const starter = { STARTER_CREDITS_USDC: '50000' }
const skip = process.platform === 'linux' ? false : 'signals are sent by /proc'

t.test('a station with its own database', { skip }, async (t) => {
  const [house, dataDir] = [t, createStationDataDir(t)]
  const settings = { DATA_DIR: dataDir, PORT: String(await findFreePort()), ...starter }
  let station = await spawnTestStationProcess(house, settings)
  const guest = await station.onboard()
  const look = async () => {
    const file = postmaster(dataDir)
    const target = `socket://${file?.socketDir}?db=gas&user=gas`
    const sql = openPostgresPool(parseDatabaseUrl(target), { max: 2 })
    await assertLedgerSound(t, sql)
    const [row] = await sql<{ n: number; keys: number }[]>`
      select count(*)::int as n, count(distinct idempotency_key)::int as keys
        from calls where tool = 'agent_ping' and status = 'ok'`
    await sql.end()
    return row as { n: number; keys: number }
  }

  t.test('survives a kill -9 of Postgres under load, five times', async (t) => {
    const load = pressure(() => station, guest, 8)
    for (let round = 0; round < 5; round += 1) {
      const before = load.acknowledged().length
      while (load.acknowledged().length < before + 40) await wait(5)
      process.kill(postmaster(dataDir)?.pid ?? 0, 'SIGKILL')
      const back = await recovery(station, guest)
      t.ok(back < RECOVERY_MS, `serves again after ${Math.round(back)} ms`)
    }
    await load.stop()
    prompt(
      t,
      load.tries.flatMap(({ answer }) => (answer === null ? [] : [answer])),
    )
    await settled(t, station, guest, load.tries)
    t.match(await look(), { n: load.tries.length, keys: load.tries.length })
    t.match((await station.ask('GET', '/api/credits/balance', guest)).body, { held_usdc: 0 })
  })

  t.test('answers while Postgres is frozen, and serves when it resumes', async (t) => {
    const pids = family(postmaster(dataDir)?.pid ?? 0)
    t.ok(pids.length > 5, `${pids.length} processes`)
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    const asleep = performance.now()
    try {
      while (performance.now() - asleep < 4_000) {
        const [health, ...answers] = await Promise.all([
          station.ask('GET', '/api/network/health'),
          station.call(guest, TOOL),
          station.ask('GET', '/api/credits/balance', guest),
          station.ask('GET', '/api/agent/transfers', guest),
        ])
        t.equal(health.status, 503)
        t.ok(
          health.ms < STATION_OUTAGE_TIMEOUT_MS,
          `health answers after ${Math.round(health.ms)} ms`,
        )
        t.ok(answers.every(({ status }) => status === 503))
        prompt(t, answers)
      }
    } finally {
      for (const pid of pids) process.kill(pid, 'SIGCONT')
    }
    const back = await recovery(station, guest)
    t.ok(back < RECOVERY_MS, `serves again after ${Math.round(back)} ms`)
    await look()
  })

  t.test('loses no acknowledged operation when it is killed under load', async (t) => {
    const known = (await look()).n
    const load = pressure(() => station, guest, 8)
    for (let round = 0; round < 3; round += 1) {
      const before = load.acknowledged().length
      while (load.acknowledged().length < before + 40) await wait(5)
      t.equal(await station.end('SIGKILL'), 'SIGKILL')
      station = await spawnTestStationProcess(house, settings)
    }
    await load.stop()
    t.ok(
      load.tries.some(({ answer }) => answer === null),
      'some never heard an answer',
    )
    const charged = await look()
    t.ok(charged.n - known >= load.acknowledged().length)
    await settled(t, station, guest, load.tries)
    t.equal((await look()).n - known, load.tries.length, 'each call was charged once')
  })

  t.test('stops on SIGTERM after running requests, and starts again', async (t) => {
    const load = pressure(() => station, guest, 8)
    while (load.acknowledged().length < 40) await wait(5)
    const started = performance.now()
    t.equal(await station.end('SIGTERM'), 0, station.outputLines.slice(-3).join('\n'))
    const took = performance.now() - started
    t.ok(took < RECOVERY_MS, `gone after ${Math.round(took)} ms`)
    station = await spawnTestStationProcess(house, settings)
    await load.stop()
    for (const { answer } of load.tries) if (answer !== null) prompt(t, [answer])
    await settled(t, station, guest, load.tries)
    t.equal((await station.ask('GET', '/api/network/health')).status, 200)
    await look()
  })
})

t.test('a hold of a killed stream is released by its timer', async (t) => {
  let asked = () => {}
  const running = new Promise<void>((resolve) => (asked = resolve))
  const { base } = await startFixtureServer(t, (_, response) => {
    asked()
    t.teardown(() => sendJsonFixture(response, {}))
  })
  const main = await startInProcessTestStation(t)
  const settings = {
    FREE_TIER_PER_DAY: '0',
    COINGECKO_BASE: base,
    DATABASE_URL: main.database.settings.databaseUrl,
  }
  const other = await spawnTestStationProcess(t, { ...settings, DATA_DIR: createStationDataDir(t) })
  const guest = await main.onboard()
  const pack = await main.ask('POST', '/api/backpack/create', {
    key: guest.key,
    json: { agent_name: 'x', fuse: { per_day_usdc: 0.005 } },
  })
  const task = await main.ask('POST', '/api/task/start', {
    key: guest.key,
    json: { name: 'x', budget_usdc: 0.005 },
  })
  const limits = { 'x-backpack-id': pack.body.backpack_id, 'x-task-id': task.body.task_id }
  const lost = other
    .ask('POST', '/api/refuel/stream', {
      key: guest.key,
      json: { tool: 'price_feed', query: 'BTC' },
      headers: limits,
    })
    .catch(() => null)
  await running
  await other.end('SIGKILL')
  await lost
  const held = await main.ask('GET', '/api/credits/balance', { key: guest.key })
  t.match(held.body, { held_usdc: 0.005, balance_usdc: 0.495 })
  t.equal((await main.call(guest, TOOL, {}, limits)).status, 403, 'the fuse counts what is held')
  await main.verify()

  const moved = await main.sql`update timers set due_at = now() where id like 'hold:%' returning id`
  t.equal(moved.length, 1)
  // A starting node reads due timers.
  await startInProcessTestStation(t, {}, { database: main.database })
  while ((await main.sql`select from timers where id like 'hold:%'`).length > 0) await wait(20)
  const freed = await main.ask('GET', '/api/credits/balance', { key: guest.key })
  t.match(freed.body, { held_usdc: 0, balance_usdc: 0.5 })
  t.equal((await main.call(guest, TOOL, {}, limits)).status, 200, 'its limits are free again')
  await main.verify()
})
