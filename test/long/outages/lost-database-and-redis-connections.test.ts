import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import {
  startJobQueues,
  type JobQueuesDeps,
} from '../../../jobs/queues/distributed-job-queue-service.ts'
import type { JobPayload } from '../../../jobs/queues/queue-workers.ts'
import { parseDatabaseUrl } from '../../../persistence/postgres/database-url.ts'
import { parseRedisUrl } from '../../../persistence/redis/redis-address.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'
import { startPostgresFaultProxy } from '../../support/postgres/postgres-fault-proxy.ts'
import { startRedisBehindProxy, redisServerPath } from '../../support/redis/redis-fault-proxy.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/**
 * Lines that will never be answered, while new ones work: a database that has moved to another host,
 * or a router that has forgotten its connections. Nothing ends such a line for a quarter of an hour.
 */
const TOOL = 'hive_trending'
/** Generous: it distinguishes an answer from a hang. */
const RECONNECT_TIMEOUT_MS = 15_000
/** The pool by default and its transactions, the lane, the line that listens, and the jobs. */
const CONNECTIONS = 10 + 6 + 3 + 1 + 12

/** Of the jobs: hints, and two of the workers. Beside them are snapshots and counters. */
const JOBS_LINES = 3
const ASKED_BY_CALLS = 2
/** Minimum wait of each for its count. */
const COUNTED_MS = 250
const REQUESTS = 60
const skip = redisServerPath === undefined ? 'no redis-server is installed' : false

type Health = Record<'bus' | 'redis', { readonly ok: boolean }>

t.test('a station replaces dead connections', async (t) => {
  const database = await createTestDatabase(t)
  const line = await startPostgresFaultProxy(t, database.settings.databaseUrl)
  const main = await startInProcessTestStation(t, {}, { database: { ...database, settings: line } })
  const guest = await main.onboard()
  const { key } = guest
  t.equal((await main.call(guest, TOOL)).status, 200)
  t.equal((await main.ask('POST', '/api/keys', { key, json: {} })).status, 200)
  line.kill()
  const asked = [
    main.call(guest, TOOL),
    main.ask('GET', '/api/task/schedules', { key }),
    main.ask('GET', '/api/messages', { key }),
    main.ask('POST', '/api/keys', { key, json: {} }),
  ]
  for (const { status, ms } of await Promise.all(asked)) {
    t.ok([200, 503].includes(status), `answered ${status}`)
    t.ok(ms < RECONNECT_TIMEOUT_MS, `after ${Math.round(ms)} ms`)
  }
  await waitUntilTrue('it serves again', async () => (await main.call(guest, TOOL)).status === 200)
  for (const path of ['/api/agent/me', '/api/messages', '/api/task/schedules'])
    t.equal((await main.ask('GET', path, { key })).status, 200, path)
  t.equal((await main.ask('POST', '/api/keys', { key, json: {} })).status, 200)
  t.ok(line.connections() <= CONNECTIONS, `${line.connections()} lines`)
  await main.verify()
})

t.test('a station leaves a server that has become read only', async (t) => {
  const main = await startInProcessTestStation(t)
  const guest = await main.onboard()
  t.equal((await main.call(guest, TOOL)).status, 200)
  const { database: name } = parseDatabaseUrl(main.database.settings.databaseUrl)
  const stays = main.database.sql
  await stays.unsafe(`alter database ${name} set default_transaction_read_only = on`)
  await stays`select pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and application_name like 'gas-station%' and pid <> pg_backend_pid()`
  await waitUntilTrue('it notices', async () => {
    const { status, body } = await main.call(guest, TOOL)
    t.match({ status, code: body.code }, { status: 503, code: 'unavailable' })
    return (await main.ask('GET', '/readyz')).status === 503
  })
  t.match((await main.ask('GET', '/api/network/health')).body['dependencies'], {
    postgres: { ok: false, detail: 'cannot store anything: it is read only' },
  })
  // As after a failover: the connections of now stay read only, new ones are not.
  await stays.unsafe(`alter database ${name} reset default_transaction_read_only`)
  await waitUntilTrue('it serves again', async () => (await main.call(guest, TOOL)).status === 200)
  await waitUntilTrue('it is ready', async () => (await main.ask('GET', '/readyz')).status === 200)
  await main.verify()
})

t.test(
  'dead Redis connections are dropped without delaying requests',
  { skip: redisServerPath === undefined ? 'no redis-server is installed' : false },
  async (t) => {
    const redis = await startRedisBehindProxy(t)
    const main = await startInProcessTestStation(t, {
      REDIS_URL: redis.url,
      STARTER_CREDITS_USDC: '50',
    })
    const guest = await main.onboard()
    await waitUntilTrue(
      'all are open',
      async () => redis.connections() === JOBS_LINES + ASKED_BY_CALLS,
    )
    t.equal((await main.call(guest, TOOL)).status, 200)
    redis.deaden()
    t.equal(redis.connections(), 0)
    const schedule = { interval: '1h', tool: TOOL, params: {} }
    t.equal(
      (await main.ask('POST', '/api/task/schedule', { key: guest.key, json: schedule })).status,
      200,
    )
    // Each is detected by its own requests: snapshots, counts, the hint of the schedule, its worker.
    await waitUntilTrue('all have others', async () => {
      const { status, ms } = await main.call(guest, TOOL)
      if (status !== 200 || ms > RECONNECT_TIMEOUT_MS) throw new Error(`${status} after ${ms} ms`)
      const { body } = await main.ask('GET', '/api/network/health')
      return (body['dependencies'] as Health).redis.ok && redis.connections() >= ASKED_BY_CALLS
    })
    await main.verify()
  },
)

t.test('a slow Redis does not delay every request', { skip }, async (t) => {
  const redis = await startRedisBehindProxy(t)
  const main = await startInProcessTestStation(t, { REDIS_URL: redis.url, RATE_LIMITS: 'on' })
  const { key } = await main.onboard()
  redis.delay(COUNTED_MS)
  const begun = performance.now()
  for (let n = 0; n < REQUESTS; n += 1)
    t.equal((await main.ask('GET', '/api/agent/me', { key })).status, 200)
  const took = performance.now() - begun
  t.ok(took < (REQUESTS * COUNTED_MS) / 2, `${REQUESTS} requests in ${Math.round(took)} ms`)
})

t.test('jobs on Postgres continue on new connections after a notice', async (t) => {
  const { settings } = await createTestDatabase(t)
  const line = await startPostgresFaultProxy(t, settings.databaseUrl)
  const target = parseDatabaseUrl(line.databaseUrl) as JobQueuesDeps['target']
  const parts = {
    clock: createDatabaseAdjustedClock(),
    target,
    redis: null,
    prefix: '',
    log: () => {},
  }
  const jobs = startJobQueues(parts)
  t.teardown(() => jobs.stop())
  const heard: JobPayload[] = []
  jobs.work('lines', async (data) => void heard.push(data))
  jobs.hint('lines', 'lines-1', { n: 1 })
  await waitUntilTrue('the first', () => heard.length === 1)
  line.kill()
  jobs.renew()
  for (let n = 2; heard.length < 2; n += 1) {
    // Hints in transit may be lost with their connections, so rows are scanned too.
    jobs.hint('lines', `lines-${n}`, { n })
    await wait(200)
  }
  t.pass('a hint is heard again')
})

t.test('jobs on Redis continue on new connections automatically', { skip }, async (t) => {
  const [{ settings }, redis] = [await createTestDatabase(t), await startRedisBehindProxy(t)]
  const target = parseDatabaseUrl(settings.databaseUrl) as JobQueuesDeps['target']
  const where = { target, redis: parseRedisUrl(redis.url), prefix: 'lines' }
  const jobs = startJobQueues({ clock: createDatabaseAdjustedClock(), ...where, log: () => {} })
  t.teardown(() => jobs.stop())
  const heard: JobPayload[] = []
  jobs.work('lines', async (data) => void heard.push(data))
  jobs.hint('lines', 'lines-1', { n: 1 })
  await waitUntilTrue('the first', () => heard.length === 1 && redis.connections() === JOBS_LINES)
  redis.deaden()
  for (let n = 2; redis.connections() < JOBS_LINES; n += 1) {
    jobs.hint('lines', `lines-${n}`, { n })
    await wait(200)
  }
  const before = heard.length
  jobs.hint('lines', 'lines-last', { n: 0 })
  await waitUntilTrue('one more', () => heard.length > before)
  t.pass('a hint is heard again')
})

t.test('a database that only paused keeps its connections', async (t) => {
  const database = await createTestDatabase(t)
  const line = await startPostgresFaultProxy(t, database.settings.databaseUrl)
  const main = await startInProcessTestStation(t, {}, { database: { ...database, settings: line } })
  const guest = await main.onboard()
  t.equal((await main.call(guest, TOOL)).status, 200)
  const lines = async () => {
    const rows = await database.sql<{ pid: number }[]>`
      select pid from pg_stat_activity
       where datname = current_database() and application_name like 'gas-station%' and pid <> pg_backend_pid()`
    return new Set(rows.map(({ pid }) => pid))
  }
  const before = await lines()
  line.set('silent')
  await waitUntilTrue('it is noticed', async () => {
    const { body } = await main.ask('GET', '/api/network/health')
    return (body['dependencies'] as Health).bus.ok === false
  })
  line.set('open')
  await waitUntilTrue('it serves again', async () => (await main.call(guest, TOOL)).status === 200)
  // The listening connection is closed last, after the state of the others is known.
  let gone: number[] = []
  await waitUntilTrue('it listens on another line', async () => {
    const after = await lines()
    gone = [...before].filter((pid) => !after.has(pid))
    return gone.length > 0
  })
  t.ok(gone.length <= 1, `${gone.length} of ${before.size} are gone: the one that listened`)
})
