import { parseRedisUrl } from '../../../persistence/redis/redis-address.ts'
import { accessSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { startPostgresAndRedis } from '../../../persistence/start-postgres-and-redis.ts'
import type {
  StationPostgresAndRedis,
  PostgresAndRedisSettings,
} from '../../../persistence/start-postgres-and-redis.ts'
import { startRedisChildProcess } from '../../../persistence/redis/redis-child-process.ts'
import {
  createDisabledSnapshotCache,
  createRedisSnapshotCache,
} from '../../../persistence/redis/redis-aggregate-snapshot-cache.ts'
import type { StoredAggregate } from '../../../persistence/stored-aggregate.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { startRedisBehindProxy } from '../../support/redis/redis-fault-proxy.ts'

/** Generous: they tell an answer from a hang, not a quick machine from a busy one. */
const CACHE_TIMEOUT_MS = 10_000
const RECOVERY_MS = 30_000
const ASKED = 1_000

const searchPath = '/usr/local/bin:/usr/bin:/opt/homebrew/bin'
const installed = searchPath
  .split(':')
  .some((dir) => ['redis-server', 'valkey-server'].some((name) => exists(join(dir, name))))
const skip = installed ? false : 'no redis-server or valkey-server is installed'

function exists(file: string): boolean {
  try {
    accessSync(file)
    return true
  } catch {
    return false
  }
}

const snapshot = (id: string, version: number): StoredAggregate => ({
  id,
  kind: 'agent',
  version,
  actors: [{ kind: 'agent', id, machineVersion: 1, state: `{"version":${version}}` }],
})

function dir(t: Test): string {
  const made = mkdtempSync(join(tmpdir(), 'gas-station-redis-test-'))
  t.teardown(() => rmSync(made, { recursive: true, force: true }))
  return made
}

async function child(t: Test, dataDir = dir(t)): Promise<{ path: string }> {
  const started = await startRedisChildProcess({
    dataDir,
    searchPath,
    log: (line) => t.comment(line),
  })
  if (started === null) throw new Error('Redis does not start')
  t.teardown(() => started.stop())
  return started
}

async function caches(t: Test, path: string, count: number) {
  const made = await Promise.all(
    Array.from({ length: count }, () => createRedisSnapshotCache({ path }, 'test:')),
  )
  for (const cache of made) t.teardown(() => cache.stop())
  return made
}

async function eventually<T>(t: Test, attempt: () => Promise<T | null | undefined>): Promise<T> {
  const deadline = performance.now() + RECOVERY_MS
  for (;;) {
    const found = await attempt().catch(() => null)
    if (found !== null && found !== undefined) return found
    if (performance.now() > deadline) throw new Error(`${t.name}: not within ${RECOVERY_MS} ms`)
    await sleep(10)
  }
}

/** The server that listens on this socket: its arguments name the path. */
function pidOf(path: string): number {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      // Its process title is shorter after the start, and that of its shell differs.
      if (/^[^\0 ]*(redis|valkey)-server\b/.test(command) && command.includes(path))
        return Number(pid)
    } catch {
      // it has ended meanwhile
    }
  }
  throw new Error(`nobody serves ${path}`)
}

async function plane(
  t: Test,
  settings: Partial<PostgresAndRedisSettings>,
): Promise<StationPostgresAndRedis> {
  const { settings: database } = await createTestDatabase(t)
  const started = await startPostgresAndRedis({
    ...database,
    redisUrl: null,
    dataDir: dir(t),
    redis: 'auto',
    searchPath,
    log: (line) => t.comment(line),
    ...settings,
  })
  t.teardown(() => started.stop())
  return started
}

t.test('without Redis the cache is empty and nothing fails', async (t) => {
  const cache = createDisabledSnapshotCache()
  cache.put(snapshot('a', 1))
  cache.drop('a')
  t.equal((await cache.get(['a'])).size, 0)
})

t.test('every node reads the newest snapshot', { skip }, async (t) => {
  const { path } = await child(t)
  const [one, two] = await caches(t, path, 2)
  if (one === undefined || two === undefined) return
  for (const version of [1, 2, 3]) one.put(snapshot('a', version))
  t.same(await eventually(t, async () => (await two.get(['a', 'none'])).get('a')), snapshot('a', 3))
  t.same([...(await two.get(['a', 'none'])).keys()], ['a'])
  one.put(snapshot('a', 9))
  await eventually(t, async () => ((await two.get(['a'])).get('a')?.version === 9 ? true : null))
  two.put(snapshot('a', 8))
  two.put(snapshot('late', 1))
  await eventually(t, async () => (await one.get(['late'])).get('late'))
  t.equal((await one.get(['a'])).get('a')?.version, 9, 'a late writer cannot go back')
  two.drop('a')
  await eventually(t, async () => ((await one.get(['a'])).size === 0 ? true : null))
})

t.test('a snapshot expires, and an invalid one is a miss', { skip }, async (t) => {
  const { path } = await child(t)
  const [cache] = await caches(t, path, 1)
  const raw = new Redis(path)
  t.teardown(() => raw.disconnect())
  cache?.put(snapshot('a', 1))
  const ttl = await eventually(t, async () =>
    (await raw.pttl('test:agg:a')) > 0 ? raw.pttl('test:agg:a') : null,
  )
  t.ok(ttl > 500_000 && ttl <= 600_000, `${ttl} ms`)
  await raw.mset(
    'test:agg:b',
    'not json',
    'test:agg:c',
    `3|${JSON.stringify(snapshot('another', 3))}`,
  )
  t.same([...((await cache?.get(['a', 'b', 'c'])) ?? []).keys()], ['a'])
  await raw.flushall()
  await eventually(t, async () => ((await cache?.get(['a']))?.size === 0 ? true : null))
})

t.test('requests wait briefly for an unresponsive Redis, then skip it', { skip }, async (t) => {
  const { path } = await child(t)
  const [cache] = await caches(t, path, 1)
  cache?.put(snapshot('a', 1))
  await eventually(t, async () => (await cache?.get(['a']))?.get('a'))
  const pid = pidOf(path)
  process.kill(pid, 'SIGSTOP')
  try {
    const asked = performance.now()
    t.equal((await cache?.get(['unknown']))?.size, 0)
    const first = performance.now() - asked
    // A wait for each of them would take many times the patience.
    for (let times = 0; times < 200; times += 1) await cache?.get([`unknown-${times}`])
    const rest = performance.now() - asked - first
    t.ok(first < CACHE_TIMEOUT_MS, `first ${Math.round(first)} ms`)
    t.ok(rest < CACHE_TIMEOUT_MS, `200 more ${Math.round(rest)} ms`)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  await eventually(t, async () => (await cache?.get(['a']))?.get('a'))
})

t.test('Redis restarts after kill -9 with its persisted data', { skip }, async (t) => {
  const { cache, redis, health, description } = await plane(t, {})
  t.match(description, /^plane: postgres=url \(\d+ ms\) redis=child$/)
  t.match(await health(), {
    postgres: { ok: true, kind: 'url' },
    redis: { ok: true, kind: 'child' },
  })
  const path = redis?.options.path ?? ''
  t.equal(await redis?.incr('counter'), 1)
  process.kill(pidOf(path), 'SIGKILL')
  const failed = await eventually(t, async () => {
    const asked = performance.now()
    return redis?.get('counter').then(
      () => null,
      () => performance.now() - asked,
    )
  })
  t.ok(failed < CACHE_TIMEOUT_MS, `refused after ${Math.round(failed)} ms`)
  t.ok((await eventually(t, async () => redis?.incr('counter'))) >= 2, 'the counter went on')
  await eventually(t, async () => {
    cache.put(snapshot('a', 1))
    return (await cache.get(['a'])).get('a')
  })
  t.match(await health(), { redis: { ok: true } })
})

t.test('a dead connection is replaced by a working one', { skip }, async (t) => {
  const redis = await startRedisBehindProxy(t)
  const cache = await createRedisSnapshotCache(parseRedisUrl(redis.url), 'test:')
  t.teardown(() => cache.stop())
  const answers = (version: number) =>
    eventually(t, async () => {
      cache.put(snapshot('a', version))
      return (await cache.get(['a'])).get('a')?.version === version ? true : null
    })
  await answers(1)
  redis.deaden()
  await answers(2)
  t.equal(redis.connections(), 1)
})

t.test('a dead connection is closed without a request', { skip }, async (t) => {
  const redis = await startRedisBehindProxy(t)
  const cache = await createRedisSnapshotCache(parseRedisUrl(redis.url), 'test:')
  t.teardown(() => cache.stop())
  await eventually(t, async () => {
    cache.put(snapshot('a', 1))
    return (await cache.get(['a'])).get('a')
  })
  redis.deaden()
  // The dead connection is closed, and one new connection replaces it.
  await eventually(t, async () => (redis.connections() === 1 ? true : null))
  t.equal(redis.connections(), 1)
})

t.test('an accepted but unresponsive connection is closed too', { skip }, async (t) => {
  const redis = await startRedisBehindProxy(t)
  redis.set('silent')
  const cache = await createRedisSnapshotCache(parseRedisUrl(redis.url), 'test:')
  t.teardown(() => cache.stop())
  await eventually(t, async () => (redis.connections() > 0 ? true : null))
  redis.deaden()
  redis.set('open')
  await eventually(t, async () => {
    cache.put(snapshot('a', 1))
    return (await cache.get(['a'])).get('a')
  })
  t.equal(redis.connections(), 1)
})

t.test('many concurrent requests to a paused Redis drop no connection', { skip }, async (t) => {
  const { path } = await child(t)
  const [cache = createDisabledSnapshotCache()] = await caches(t, path, 1)
  const raw = new Redis(path)
  t.teardown(() => raw.disconnect())
  const line = async () => /^id=\d+ (?=.* flags=t)/m.exec(String(await raw.client('LIST')))?.[0]
  const before = await line()
  t.ok(before)
  const pid = pidOf(path)
  process.kill(pid, 'SIGSTOP')
  try {
    await Promise.all(Array.from({ length: 10 }, (_, n) => cache.get([`unknown-${n}`])))
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  await eventually(t, async () => {
    cache.put(snapshot('a', 1))
    return (await cache.get(['a'])).get('a')
  })
  t.equal(await line(), before)
})

t.test('a miss in Redis is not cached', { skip }, async (t) => {
  const { path } = await child(t)
  const [cache] = await caches(t, path, 1)
  await cache?.get(['unknown'])
  const before = queryObjects(Set, { format: 'count' })
  await cache?.get(Array.from({ length: ASKED }, (_, n) => `unknown-${n}`))
  const kept = queryObjects(Set, { format: 'count' }) - before
  t.ok(kept < ASKED / 10, `${kept} of ${ASKED} kept`) // each key that is remembered has a set
})

t.test('a second process with the same data directory shares the server', { skip }, async (t) => {
  const dataDir = dir(t)
  const first = await child(t, dataDir)
  const pid = pidOf(first.path)
  const second = await startRedisChildProcess({
    dataDir,
    searchPath,
    log: (line) => t.comment(line),
  })
  t.equal(second?.path, first.path)
  await second?.stop()
  t.equal(pidOf(first.path), pid)
})

t.test('databases that share a Redis are isolated', { skip }, async (t) => {
  const dataDir = dir(t)
  const [one, two] = [await plane(t, { dataDir }), await plane(t, { dataDir })]
  one.cache.put(snapshot('same', 1))
  await eventually(t, async () => (await one.cache.get(['same'])).get('same'))
  t.equal((await two.cache.get(['same'])).size, 0)
  t.equal(await one.redis?.incr('ip'), 1)
  t.equal(await two.redis?.incr('ip'), 1)
})

t.test('an unreachable Redis does not block the start', async (t) => {
  const { cache, health } = await plane(t, { redisUrl: 'redis://127.0.0.1:1' })
  cache.put(snapshot('a', 1))
  t.equal((await cache.get(['a'])).size, 0)
  t.match(await health(), {
    postgres: { ok: true },
    redis: { ok: false, kind: 'url', detail: 'does not answer' },
  })
})

t.test('the service runs without Redis if no server is installed', async (t) => {
  const { redis, description, health } = await plane(t, { searchPath: '/nowhere' })
  t.equal(redis, null)
  t.match(description, /redis=none$/)
  t.match(await health(), { redis: { ok: true, kind: 'none' } })
})

t.test('the bus reaches every node of a database, and none after unsubscribing', async (t) => {
  const { settings, sql } = await createTestDatabase(t)
  const nodes = [
    await plane(t, { ...settings, redis: 'none' }),
    await plane(t, { ...settings, redis: 'none' }),
  ]
  const heard: string[] = []
  const leave = nodes.map(({ bus }, index) =>
    bus.subscribe('keys', (message) => heard.push(`${index}:${message}`)),
  )
  nodes[0]?.bus.subscribe('other', () => heard.push('wrong topic'))
  await nodes[0]?.bus.publish('keys', 'k "1" é')
  await eventually(t, async () => (heard.length === 2 ? true : null))
  t.same(heard.sort(), ['0:k "1" é', '1:k "1" é'])
  leave[0]?.()
  await nodes[1]?.bus.publish('keys', 'k2')
  await eventually(t, async () => (heard.includes('1:k2') ? true : null))
  t.equal(heard.length, 3)
  await t.rejects(async () => nodes[0]?.bus.publish('keys', 'x'.repeat(8_000)), /too long/)
  await sql`notify gas_bus, 'not json'`
  await nodes[0]?.bus.publish('keys', 'k3')
  await eventually(t, async () => (heard.includes('1:k3') ? true : null))
})

t.test(
  'a lost connection is unhealthy until it subscribes again, and listeners are notified',
  async (t) => {
    const { settings, sql } = await createTestDatabase(t)
    const { bus } = await plane(t, { ...settings, redis: 'none' })
    const seen: boolean[] = []
    bus.subscribe(
      'keys',
      () => undefined,
      () => seen.push(bus.healthy()),
    )
    t.equal(bus.healthy(), true)
    await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()
       and query in ('listen gas_bus', 'select 1')`
    await eventually(t, async () => (seen.length === 1 && bus.healthy() ? true : null))
    t.same(seen, [false], 'notified before the bus counts as healthy')
  },
)
