import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import {
  startJobQueues,
  type JobQueues,
  type JobQueuesDeps,
} from '../../../jobs/queues/distributed-job-queue-service.ts'
import type { JobPayload } from '../../../jobs/queues/queue-workers.ts'
import { openPostgresPool } from '../../../persistence/postgres/postgres-connection-pool.ts'
import { parseDatabaseUrl } from '../../../persistence/postgres/database-url.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'

const POLL_MS = 10
const QUEUE_TIMEOUT_MS = 20_000
const PATH = process.env['PATH'] ?? ''
const server = PATH.split(delimiter)
  .map((dir) => join(dir, 'redis-server'))
  .find((file) => existsSync(file))

/** Waits for an expected event; the limit is far above a slow run, so it detects a hang. */
async function until(what: string, happened: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + QUEUE_TIMEOUT_MS
  while (!(await happened())) {
    if (performance.now() > end) throw new Error(`it never came: ${what}`)
    await pause(POLL_MS)
  }
}

type Socket = Exclude<JobQueuesDeps['target'], { readonly host: string }>
type Place = Pick<JobQueuesDeps, 'target' | 'redis' | 'prefix'>
interface World extends Place {
  /** Nodes of one service. */
  node(t: Test): JobQueues
}

function worldOf(place: Place): World {
  return {
    ...place,
    node(t) {
      const jobs = startJobQueues({ ...place, clock: createDatabaseAdjustedClock(), log: () => {} })
      t.teardown(() => jobs.stop())
      return jobs
    },
  }
}

/** Records the calls without an effect. */
function ear() {
  const heard: JobPayload[] = []
  return { heard, handle: async (data: JobPayload) => void heard.push(data) }
}
const numbers = (heard: readonly JobPayload[]) =>
  heard.map(({ n }) => Number(n)).sort((a, b) => a - b)

function contract(t: Test, world: World): void {
  t.test('a hint reaches a worker of any node, once', async (t) => {
    const [one, two] = [world.node(t), world.node(t)]
    const [first, second] = [ear(), ear()]
    one.work('shared', first.handle)
    two.work('shared', second.handle)
    one.hintMany(
      'shared',
      Array.from({ length: 40 }, (_, n) => ({ id: `shared-${n}`, data: { n } })),
    )
    two.hint('shared', 'shared-40', { n: 40 })
    const all = () => [...first.heard, ...second.heard]
    await until('41 jobs', () => all().length >= 41)
    t.strictSame(
      numbers(all()),
      Array.from({ length: 41 }, (_, n) => n),
    )
  })

  t.test(
    'an id is queued once while it waits or runs, and may be queued again afterwards',
    async (t) => {
      const jobs = world.node(t)
      const started: number[] = []
      let open = () => {}
      const gate = new Promise<void>((resolve) => (open = resolve))
      jobs.work('again', async ({ n }) => {
        started.push(Number(n))
        await gate
      })
      jobs.hint('again', 'again-1', { n: 1 })
      await until('the first runs', () => started.length === 1)
      jobs.hint('again', 'again-1', { n: 2 })
      jobs.hint('again', 'again-2', { n: 3 })
      await until('another runs beside it', () => started.length === 2)
      t.strictSame(started, [1, 3], 'not the one that runs already')
      open()
      await until('nothing is left', async () => {
        const { again } = await jobs.counts()
        return again !== undefined && again.active + again.waiting + again.delayed === 0
      })
      jobs.hint('again', 'again-1', { n: 4 })
      await until('it came again', () => started.includes(4))
      t.strictSame(started, [1, 3, 4])
    },
  )

  t.test('a failing job is retried and finally does not block its id', async (t) => {
    const jobs = world.node(t)
    let tries = 0
    jobs.work('failing', async () => {
      tries += 1
      if (tries < 3) throw new Error('not yet')
    })
    jobs.hint('failing', 'failing-1', {})
    await until('the third try', () => tries === 3)
    await until('it is gone', async () => {
      const { failing } = await jobs.counts()
      return failing?.active === 0 && failing.failed === 0 && failing.delayed === 0
    })
    jobs.hint('failing', 'failing-1', {})
    await until('another', () => tries === 4)
    t.equal(tries, 4)
  })

  t.test('a delayed hint does not run early', async (t) => {
    const jobs = world.node(t)
    const { heard, handle } = ear()
    jobs.work('late', handle)
    const asked = performance.now()
    jobs.hint('late', 'late-1', { n: 1 }, { delayMs: 400 })
    await until('the delayed one', () => heard.length === 1)
    t.ok(performance.now() - asked >= 395, 'not before')
  })

  t.test('a node runs no more jobs than its concurrency', async (t) => {
    const jobs = world.node(t)
    let [running, most, done] = [0, 0, 0]
    jobs.work(
      'few',
      async () => {
        most = Math.max(most, (running += 1))
        await pause(20)
        running -= 1
        done += 1
      },
      { concurrency: 3 },
    )
    jobs.hintMany(
      'few',
      Array.from({ length: 12 }, (_, n) => ({ id: `few-${n}`, data: {} })),
    )
    await until('all', () => done === 12)
    t.equal(most, 3)
  })

  t.test('a stopping node finishes its jobs and leaves the rest to others', async (t) => {
    const [one, two] = [world.node(t), world.node(t)]
    let open = () => {}
    const gate = new Promise<void>((resolve) => (open = resolve))
    let [begun, ended, aborted] = [0, 0, 0]
    one.work('ending', async (_data, signal) => {
      begun += 1
      await gate
      if (signal.aborted) aborted += 1
      ended += 1
    })
    one.hint('ending', 'ending-1', {})
    await until('it runs', () => begun === 1)
    const stopped = one.stop()
    one.hint('ending', 'ending-2', {})
    open()
    await stopped
    t.strictSame([begun, ended, aborted], [1, 1, 0])
    const { heard, handle } = ear()
    two.work('ending', handle)
    two.hint('ending', 'ending-3', { n: 3 })
    await until('the other works on', () => heard.length >= 1)
    t.strictSame(numbers(heard), [3], 'what ran is not done again')
  })
}

t.test('on PostgreSQL', async (t) => {
  const { settings } = await createTestDatabase(t)
  const world = worldOf({ target: parseDatabaseUrl(settings.databaseUrl), redis: null, prefix: '' })
  t.equal(world.node(t).kind, 'postgres')
  contract(t, world)

  t.test('connects by URL and by socket', async (t) => {
    const { socketDir, database } = world.target as Socket
    const url = `postgres://gas@localhost/${database}?host=${socketDir()}`
    const jobs = startJobQueues({
      ...world,
      target: parseDatabaseUrl(url),
      clock: createDatabaseAdjustedClock(),
      log: () => {},
    })
    t.teardown(() => jobs.stop())
    const { heard, handle } = ear()
    jobs.work('by-url', handle)
    jobs.hint('by-url', 'by-url-1', { n: 1 })
    await until('the hint', () => heard.length === 1)
    t.strictSame(numbers(heard), [1])
  })

  t.test('a server with a new address is found, without constant reconnects', async (t) => {
    const { settings } = await createTestDatabase(t)
    const real = parseDatabaseUrl(settings.databaseUrl) as Socket
    let place = real.socketDir()
    let looks = 0
    const socketDir = () => {
      looks += 1
      return place
    }
    const errors: unknown[] = []
    const log = (_message: string, error: unknown) => void errors.push(error)
    const target = { ...real, socketDir }
    const jobs = startJobQueues({
      target,
      redis: null,
      prefix: '',
      clock: createDatabaseAdjustedClock(),
      log,
    })
    t.teardown(() => jobs.stop())
    const { heard, handle } = ear()
    const slowly = async (data: JobPayload) => {
      await handle(data)
      await pause(5)
    }
    jobs.work('broken', slowly, { concurrency: 2 })
    // It has not drained its queue when the server ends.
    jobs.hintMany(
      'broken',
      Array.from({ length: 1_000 }, (_, n) => ({ id: `broken-${n}`, data: { n } })),
    )
    await until('some', () => heard.length >= 20)
    const other = openPostgresPool({ ...real, database: 'postgres' }, { max: 1 })
    t.teardown(() => other.end())
    place = join(place, 'gone')
    const cut = await other`
      select pg_terminate_backend(pid) from pg_stat_activity where datname = ${real.database}`
    t.ok(cut.length > 0, `${cut.length} connections cut`)
    looks = 0
    await pause(1_500)
    t.ok(looks < 100, `${looks} looks in 1.5 s`)
    t.ok(errors.length <= 1, 'a queue that is away says so once')
    place = real.socketDir()
    await until('a hint after it', () => {
      jobs.hint('broken', 'broken-last', { n: -1 })
      return heard.some(({ n }) => n === -1)
    })
    t.pass('it works again')
  })
})

t.test('a slow start of Redis is no error, a missing Redis is one', async (t) => {
  const { settings } = await createTestDatabase(t)
  const [told, tries] = [[] as string[], { count: 0, at: 0 }]
  const mono = () => {
    tries.count += 1
    return tries.at
  }
  const jobs = startJobQueues({
    target: parseDatabaseUrl(settings.databaseUrl),
    redis: { path: join(t.testdir({}), 'nobody.sock') },
    prefix: 'away:',
    clock: { ...createDatabaseAdjustedClock(), mono },
    log: (message) => void told.push(message),
  })
  t.teardown(() => jobs.stop())
  jobs.work('away', async () => {})
  const more = async (at: number) => {
    Object.assign(tries, { count: 0, at })
    await until('tries that fail', () => tries.count > 3)
  }
  for (const at of [0, 2_000, 4_000]) await more(at)
  t.strictSame(told, [], 'it may be about to come')
  await more(20_000)
  t.strictSame(told, [], 'it was there in between')
  for (const at of [22_000, 24_000, 26_000, 28_000]) await more(at)
  t.strictSame(told, ['the queue of the jobs fails'], 'once')
})

interface RedisServer {
  readonly path: string
  start(): Promise<void>
  kill(): Promise<void>
}

function redisServer(t: Test, program: string): RedisServer {
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-jobs-'))
  const path = join(dir, 'r.sock')
  let child: ChildProcess | null = null
  const kill = async () => {
    if (child === null) return
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
    child = null
  }
  t.teardown(async () => {
    await kill()
    rmSync(dir, { recursive: true, force: true })
  })
  return {
    path,
    kill,
    async start() {
      const args = ['--port', '0', '--unixsocket', path, '--dir', dir, '--save', '']
      child = spawn(program, args, { stdio: 'ignore' })
      const probe = new Redis(path, { retryStrategy: () => 20, maxRetriesPerRequest: null })
      probe.on('error', () => {})
      await probe.ping()
      probe.disconnect()
    },
  }
}

t.test(
  'on Redis',
  { skip: server === undefined ? 'no redis-server is installed' : false },
  async (t) => {
    const { settings } = await createTestDatabase(t)
    const redis = redisServer(t, server ?? '')
    await redis.start()
    const target = parseDatabaseUrl(settings.databaseUrl)
    const world = worldOf({ target, redis: { path: redis.path }, prefix: 'gas:test:jobs' })
    t.equal(world.node(t).kind, 'redis')
    t.comment(execFileSync(server ?? '', ['--version'], { encoding: 'utf8' }).trim())
    contract(t, world)

    t.test('after FLUSHALL the sweeper enqueues the work again, and nothing hangs', async (t) => {
      const jobs = world.node(t)
      const { heard, handle } = ear()
      jobs.hint('flushed', 'flushed-1', { n: 1 })
      await until('it waits', async () => (await jobs.counts())['flushed']?.waiting === 1)
      const client = new Redis(redis.path)
      await client.flushall()
      client.disconnect()
      jobs.work('flushed', handle)
      jobs.hint('flushed', 'flushed-1', { n: 2 })
      await until('it came', () => heard.length === 1)
      t.strictSame(numbers(heard), [2])
    })

    t.test('without Redis a node runs its own jobs, and returns to Redis afterwards', async (t) => {
      const [one, two] = [world.node(t), world.node(t)]
      const [first, second] = [ear(), ear()]
      one.work('away', first.handle)
      two.work('away', second.handle)
      one.hint('away', 'away-0', { n: 0 })
      await until('before', () => first.heard.length + second.heard.length === 1)
      await redis.kill()
      one.hint('away', 'away-1', { n: 1 })
      await until('by itself', () => first.heard.some(({ n }) => n === 1))
      t.strictSame(await one.counts(), {}, 'nothing is known of what does not answer')
      await redis.start()
      await until('over the queue again', () => {
        two.hint('away', 'away-2', { n: 2 })
        return [...first.heard, ...second.heard].some(({ n }) => n === 2)
      })
      t.pass('it works again')
    })

    t.test('a node stops within its time while Redis is away', async (t) => {
      const jobs = world.node(t)
      jobs.work('stopping', async () => {})
      await until('it answers', async () => 'stopping' in (await jobs.counts()))
      await redis.kill()
      const asked = performance.now()
      await jobs.stop()
      t.ok(performance.now() - asked < 9_000, 'it did not wait for Redis')
      await redis.start()
    })
  },
)
