import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  spawnTestStationProcess,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'
const PRICE = 5_000
const START = 20_000_000
/** Generous: they tell an answer from a hang, not a quick machine from a busy one. */
const REDIS_RECOVERY_TIMEOUT_MS = 10_000
const RECOVERY_MS = 60_000
const WIDTH = 8
const HEALTH = '/api/network/health'
const PATH = process.env['PATH'] ?? ''
const usdc = (micros: number) => Math.round(micros) / 1e6

const installed = PATH.split(delimiter).some((dir) => existsSync(join(dir, 'redis-server')))
const skip = installed ? false : 'no redis-server is installed'

/** The data directory; processes that use it share one private Redis. */
function home(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-redis-e2e-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** Fewer agents fit into memory than call: each call asks Redis for its agent and for its rate. */
const settings = (dataDir: string) => ({
  DATA_DIR: dataDir,
  REDIS: 'auto',
  PATH,
  RATE_LIMITS: 'on',
  RESIDENT_AGENTS: '100',
  ONBOARD_PER_HOUR_PER_IP: '1000',
  STARTER_CREDITS_USDC: String(usdc(START)),
})

/** More agents than fit into memory; an odd number, so that each comes to every node in turn. */
async function crowd(node: TestStation): Promise<TestAgent[]> {
  const agents = Array.from({ length: 11 }, () => ({ name: 'tester' }))
  const groups = Array.from({ length: 11 }, async () => {
    const { body } = await node.ask('POST', '/api/onboard/bulk', { json: { agents } })
    const joined = body['agents'] as TestReply['body'][]
    return joined.map(({ agent_id, api_key }) => ({ id: agent_id, key: api_key }))
  })
  return (await Promise.all(groups)).flat()
}

interface Purse {
  readonly guest: TestAgent
  calls: number
}

interface Paid {
  readonly purse: Purse
  readonly first: TestReply
  /** The same request under the same Idempotency-Key, on the next node. */
  readonly again: TestReply
}

let loads = 0

/** Workers that never stop paying, each call for the next agent at the next node. */
function pressure(nodes: readonly TestStation[], purses: readonly Purse[]) {
  const load = (loads += 1)
  const paid: Paid[] = []
  const waiting: { count: number; wake: () => void }[] = []
  let sent = 0
  let running = true
  const workers = Array.from({ length: WIDTH }, async () => {
    while (running) {
      const at = (sent += 1)
      const purse = purses[at % purses.length] as Purse
      const send = (node: TestStation) =>
        node.call(purse.guest, TOOL, {}, { 'idempotency-key': `${load}-${at}` })
      const first = await send(nodes[at % nodes.length] as TestStation)
      paid.push({ purse, first, again: await send(nodes[(at + 1) % nodes.length] as TestStation) })
      for (const one of waiting) if (paid.length >= one.count) one.wake()
    }
  })
  return {
    paid,
    /** Resolves when the given number of further calls has been answered. */
    more: (calls: number) =>
      Promise.race([
        new Promise<void>((wake) => waiting.push({ count: paid.length + calls, wake })),
        Promise.all(workers).then(() => undefined),
      ]),
    async stop() {
      running = false
      await Promise.all(workers)
    },
  }
}

/** Each call was answered in time, charged once, and got a unique balance. */
async function exact(
  t: Test,
  nodes: readonly TestStation[],
  purses: readonly Purse[],
  paid: readonly Paid[],
): Promise<void> {
  const answers = paid.flatMap(({ first, again }) => [first, again])
  t.strictSame(countReplies(answers), { 200: 2 * paid.length })
  const slowest = Math.max(...answers.map(({ ms }) => ms))
  t.ok(
    slowest < REDIS_RECOVERY_TIMEOUT_MS,
    `the slowest of ${answers.length} took ${Math.round(slowest)} ms`,
  )
  const differing = paid.filter(({ first, again }) => first.text !== again.text)
  t.equal(differing.length, 0, 'repeated calls are answered alike')
  const wrong: object[] = []
  for (const [at, purse] of purses.entries()) {
    const own = paid.filter((one) => one.purse === purse)
    const told = own.map(({ first }) => Number(first.body._meta?.balance_usdc))
    const due = own.map((_, step) => usdc(START - (purse.calls + step + 1) * PRICE))
    purse.calls += own.length
    const left = await (nodes[at % nodes.length] as TestStation).balance(purse.guest)
    const isTold = told.sort((a, b) => b - a).join() === due.join()
    if (!isTold || left !== usdc(START - purse.calls * PRICE)) wrong.push({ told, due, left })
  }
  t.strictSame(wrong, [], 'balances are exact')
}

/** Asks for health until it is as wanted; it is 200 all the while, and prompt. */
async function healthUntil(
  t: Test,
  node: TestStation,
  wanted: 'ok' | 'degraded',
): Promise<TestReply> {
  const started = performance.now()
  for (;;) {
    const health = await node.ask('GET', HEALTH)
    if (health.status !== 200) t.equal(health.status, 200, health.text)
    if (health.ms >= REDIS_RECOVERY_TIMEOUT_MS)
      t.fail(`health answers after ${Math.round(health.ms)} ms`)
    if (health.body['status'] === wanted) return health
    if (performance.now() - started > RECOVERY_MS) throw new Error(`health is never ${wanted}`)
  }
}

const lost = {
  status: 200,
  body: {
    status: 'degraded',
    degraded_dependencies: ['redis'],
    dependencies: { postgres: { ok: true }, redis: { ok: false, kind: 'child' } },
  },
}

function redisOf({ station }: InProcessStation) {
  const { redis } = station.plane
  if (redis === null) throw new Error('the station has no Redis')
  const figure = async (section: string, pattern: RegExp) =>
    Number(pattern.exec(await redis.info(section))?.[1] ?? 0)
  return {
    flush: () => redis.flushall(),
    pid: () => figure('server', /^process_id:(\d+)/m),
    clients: () => figure('clients', /^connected_clients:(\d+)/m),
    snapshots: async () => (await redis.keys('*:agg:*')).length,
  }
}

/** Random, and the same in every run. */
function dice(t: Test, seed: number) {
  t.comment(`seed ${seed}`)
  let state = seed
  return (below: number) => (state = (state * 48_271) % 2_147_483_647) % below
}

t.test('a station with its own Redis under paid load', { skip }, async (t) => {
  const main = await startInProcessTestStation(t, settings(home(t)))
  const redis = redisOf(main)
  const purses = (await crowd(main)).map((guest) => ({ guest, calls: 0 }))
  const nodes = [main]
  t.match(await main.ask('GET', HEALTH), {
    status: 200,
    body: { status: 'ok', dependencies: { redis: { ok: true, kind: 'child' } } },
  })

  t.test('is not affected when Redis loses all data', async (t) => {
    const next = dice(t, 20_261_121)
    const load = pressure(nodes, purses)
    await load.more(2 * purses.length)
    t.ok((await redis.snapshots()) > 0, 'agents are kept in Redis')
    for (let round = 0; round < 20; round += 1) {
      await load.more(1 + next(60))
      await redis.flush()
    }
    await load.stop()
    await exact(t, nodes, purses, load.paid)
    await main.verify()
  })

  t.test('continues when Redis is killed, and restarts it', async (t) => {
    const next = dice(t, 20_261_122)
    const load = pressure(nodes, purses)
    for (let round = 0; round < 4; round += 1) {
      await load.more(purses.length + next(120))
      const pid = await redis.pid()
      process.kill(pid, 'SIGKILL')
      t.match(await healthUntil(t, main, 'degraded'), lost)
      await healthUntil(t, main, 'ok')
      t.not(await redis.pid(), pid, 'another process serves')
    }
    await load.more(purses.length)
    await load.stop()
    await exact(t, nodes, purses, load.paid)
    await main.verify()
  })

  t.test('continues while Redis is frozen', async (t) => {
    const load = pressure(nodes, purses)
    await load.more(purses.length)
    for (let round = 0; round < 2; round += 1) {
      const pid = await redis.pid()
      process.kill(pid, 'SIGSTOP')
      try {
        t.match(await healthUntil(t, main, 'degraded'), lost)
        await load.more(4 * WIDTH)
        t.match(await main.ask('GET', HEALTH), lost)
      } finally {
        process.kill(pid, 'SIGCONT')
      }
      await healthUntil(t, main, 'ok')
      t.equal(await redis.pid(), pid, 'the same process wakes')
      await load.more(purses.length)
    }
    await load.stop()
    await exact(t, nodes, purses, load.paid)
    await main.verify()
  })
})

t.test('two stations with one Redis and one database', { skip }, async (t) => {
  const dataDir = home(t)
  const main = await startInProcessTestStation(t, settings(dataDir))
  const redis = redisOf(main)
  const alone = await redis.clients()
  const beside = await spawnTestStationProcess(t, {
    DATABASE_URL: main.database.settings.databaseUrl,
    PUBLIC_URL: 'http://gas.test',
    ...settings(dataDir),
  })
  // A station serves before it has found Redis.
  const started = performance.now()
  while ((await redis.clients()) < 2 * alone && performance.now() - started < RECOVERY_MS) {
    await wait(20)
  }
  t.ok((await redis.clients()) >= 2 * alone, 'both are connected to the same server')
  const nodes = [main, beside]
  const purses = (await crowd(main)).map((guest) => ({ guest, calls: 0 }))

  t.test('stay exact while Redis loses all data at random moments', async (t) => {
    const next = dice(t, 20_261_123)
    const load = pressure(nodes, purses)
    await load.more(2 * purses.length)
    for (let round = 0; round < 20; round += 1) {
      await load.more(1 + next(60))
      await redis.flush()
    }
    await load.stop()
    await exact(t, nodes, purses, load.paid)
    await main.verify()
  })

  t.test('stay exact when few agents are called on both stations concurrently', async (t) => {
    const next = dice(t, 20_261_124)
    const few = purses.slice(0, 3)
    const load = pressure(nodes, few)
    for (let round = 0; round < 10; round += 1) {
      await load.more(1 + next(20))
      await redis.flush()
    }
    await load.stop()
    await exact(t, nodes, few, load.paid)
    await main.verify()
  })
})
