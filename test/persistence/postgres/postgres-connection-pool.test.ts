import { mkdtempSync, rmSync } from 'node:fs'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Pool } from 'pg'
import t, { type Test } from 'tap'
import { createBullmqPostgresPool } from '../../../persistence/bullmq-connections.ts'
import { parseDatabaseUrl } from '../../../persistence/postgres/database-url.ts'
import {
  openDedicatedConnection,
  openPostgresPool,
} from '../../../persistence/postgres/postgres-connection-pool.ts'
import { postgresSocketPath } from '../../../persistence/postgres/postmaster-pid-file.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'

/** The handshake of a server: no password, then ready for a query. */
const WELCOME = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49])

t.test('arrays are stored and returned unchanged', async (t) => {
  const { sql } = await createTestDatabase(t)
  const texts = ['a', '', 'null', 'NULL', '{"x"}', 'a,b', '\\ "', 'ü€🚀', '\n']
  const ids = ['00000000-0000-7000-8000-000000000001']
  const [row] = await sql`
    select ${texts}::text[] as texts, ${[]}::text[] as none, ${[1, -2]}::int[] as ints,
      ${[1.5, -0.25]}::float8[] as floats, ${['9223372036854775807']}::bigint[] as bigs,
      ${ids}::uuid[] as ids, ${['a', null]}::text[] as gaps, ${'{t,f}'}::boolean[] as flags`
  t.strictSame(
    { ...row },
    {
      texts,
      none: [],
      ints: [1, -2],
      floats: [1.5, -0.25],
      bigs: [9223372036854775807n],
      ids,
      gaps: ['a', null],
      flags: [true, false],
    },
  )
})

t.test(
  'a server that closes right after the handshake fails the query, not the process',
  async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'gas-station-connect-'))
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        socket.write(WELCOME)
        socket.once('data', () => socket.destroy())
      })
    })
    server.listen(postgresSocketPath(dir))
    await once(server, 'listening')
    const sql = openPostgresPool({ socketDir: () => dir, database: 'gas', user: 'gas' }, { max: 1 })
    t.teardown(async () => {
      await sql.end({ timeout: 0 })
      server.close()
      rmSync(dir, { recursive: true, force: true })
    })
    const loose: unknown[] = []
    const note = (error: unknown) => void loose.push(error)
    process.on('unhandledRejection', note)
    t.teardown(() => process.off('unhandledRejection', note))
    await t.rejects(sql`select 1`, { code: 'CONNECTION_CLOSED' })
    await new Promise((resolve) => setImmediate(resolve))
    t.strictSame(loose, [], 'no promise is left without a handler')
  },
)

/** Records unhandled errors, which would end the process, for the duration of the test. */
function stray(t: Test): unknown[] {
  const found: unknown[] = []
  const note = (error: unknown) => void found.push(error)
  for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, note)
  t.teardown(() => {
    for (const event of ['uncaughtException', 'unhandledRejection']) process.off(event, note)
  })
  return found
}

const turns = async (count: number) => {
  for (let at = 0; at < count; at += 1) await new Promise((resolve) => setImmediate(resolve))
}

for (const moment of ['in a statement', 'between two statements'] as const) {
  t.test(`a transaction whose connection dies ${moment} affects no other`, async (t) => {
    const { sql, settings } = await createTestDatabase(t)
    await sql`create table kept (id int)`
    const loose = stray(t)
    const pool = openPostgresPool(parseDatabaseUrl(settings.databaseUrl), { max: 1 })
    t.teardown(() => pool.end({ timeout: 0 }))
    const kill = (pid: number) => sql`select pg_terminate_backend(${pid})`
    for (let round = 0; round < 5; round += 1) {
      const dead = pool.begin(async (tx) => {
        const [row] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`
        const pid = row?.pid ?? 0
        await tx`insert into kept values (1)`
        if (moment === 'in a statement') {
          const sleep = tx`select pg_sleep(60)`.execute()
          sleep.catch(() => {})
          await kill(pid)
          await sleep
        } else {
          await kill(pid)
          while ((await sql`select from pg_stat_activity where pid = ${pid}`).length > 0);
          await turns(20)
        }
        return tx`insert into kept values (2)`
      })
      await t.rejects(dead)
      await turns(5)
      const alive = await pool.begin(async (tx) => {
        await tx`insert into kept values (3)`
        return tx`select 1 as one`
      })
      t.match(alive, [{ one: 1 }])
      t.match(await pool`select 1 as one`, [{ one: 1 }])
    }
    t.strictSame(loose, [], 'the process was in no danger')
    t.match(await sql`select id, count(*)::int as n from kept group by id`, [{ id: 3, n: 5 }])
  })
}

/** A way to a database that can be cut: every connection at one instant, as when its server dies. */
async function cuttable(t: Test, databaseUrl: string) {
  const real = parseDatabaseUrl(databaseUrl)
  if (!('socketDir' in real)) throw new Error('the test database is on a unix socket')
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-connect-'))
  const open = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect(postgresSocketPath(real.socketDir()))
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one)
      one.on('error', () => {}).once('close', () => open.delete(one))
      one.pipe(other)
    }
  })
  server.listen(postgresSocketPath(dir))
  await once(server, 'listening')
  const cut = () => open.forEach((socket) => socket.destroy())
  t.teardown(() => {
    cut()
    server.close()
    rmSync(dir, { recursive: true, force: true })
  })
  return { target: { ...real, socketDir: () => dir }, cut }
}

t.test('a pool works immediately after it has lost all connections', async (t) => {
  const { settings } = await createTestDatabase(t)
  const { target, cut } = await cuttable(t, settings.databaseUrl)
  const pool = openPostgresPool(target, { max: 2 })
  t.teardown(() => pool.end({ timeout: 0 }))
  const one = () => pool`select 1 as one`
  for (let round = 0; round < 5; round += 1) {
    await Promise.all([one(), one()])
    const busy = pool`select pg_sleep(60)`.execute()
    // An immediate query gets a connection that is about to report its end.
    const again = busy.catch(() => one().catch(() => null))
    await turns(2)
    cut()
    await t.rejects(busy, { code: 'CONNECTION_CLOSED' })
    await again
    t.match(await Promise.all([one(), one()]), [[{ one: 1 }], [{ one: 1 }]])
  }
})

t.test('a pool that loses connections while queries wait leaks none', async (t) => {
  const { sql, settings } = await createTestDatabase(t)
  const pool = openPostgresPool(parseDatabaseUrl(settings.databaseUrl), { max: 3 })
  const connections = async () => {
    const [row] = await sql<{ n: number }[]>`
      select count(*)::int as n from pg_stat_activity where datname = current_database()`
    return row?.n ?? 0
  }
  const before = await connections()
  for (let round = 0; round < 3; round += 1) {
    const waiting = Array.from({ length: 40 }, () => pool`select pg_sleep(0.02)`.catch(() => null))
    const killed = async () =>
      (
        await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and state = 'active' and pid <> pg_backend_pid() limit 1`
      ).length === 1
    await eventually(killed, 'a statement under way')
    await Promise.all(waiting)
  }
  await pool.end({ timeout: 5 })
  await eventually(async () => (await connections()) <= before, 'the end of all connections')
})

t.test('a transaction is atomic', async (t) => {
  const { sql, settings } = await createTestDatabase(t)
  await sql`create table kept (id int primary key)`
  const pool = openPostgresPool(parseDatabaseUrl(settings.databaseUrl), { max: 1 })
  t.teardown(() => pool.end({ timeout: 0 }))
  const insert = (ids: number[]) =>
    pool.begin(async (tx) => {
      for (const id of ids) await tx`insert into kept values (${id})`
    })
  await t.rejects(insert([1, 2, 1]), { code: '23505' })
  await t.rejects(
    pool.begin(async (tx) => {
      await tx`insert into kept values (3)`
      await tx`insert into kept values (3)`.catch(() => {})
    }),
    /statements failed/,
  )
  await t.rejects(
    pool.begin('read only', (tx) => tx`insert into kept values (4)`),
    { code: '25006' },
  )
  // More at once than there are connections for: each has its turn.
  await Promise.all(Array.from({ length: 30 }, (_, at) => insert([100 + at])))
  t.match(await sql`select count(*)::int as n from kept`, [{ n: 30 }])
})

t.test('no connection has its statements compiled', async (t) => {
  const { settings } = await createTestDatabase(t)
  const target = parseDatabaseUrl(settings.databaseUrl)
  const pool = openPostgresPool(target, { max: 1 })
  const dedicated = openDedicatedConnection(target, { onclose() {}, onnotify() {} })
  const jobs = createBullmqPostgresPool(target, 1) as unknown as Pool
  t.teardown(() => Promise.all([pool.end(), dedicated.end(), jobs.end()]))
  const off = [{ jit: 'off' }]
  t.match(await pool`show jit`, off)
  t.match(await pool.begin((tx) => tx`show jit`), off)
  t.match(await dedicated`show jit`, off)
  t.match((await jobs.query('show jit')).rows, off)
})

/** What a server answers to a connection beyond `max_connections`. */
const FULL = Buffer.from('SFATAL\0C53300\0Msorry, too many clients already\0\0', 'latin1')
const header = Buffer.alloc(5)
header.write('E', 'latin1')
header.writeInt32BE(FULL.length + 4, 1)

/** A way to a database that refuses as many connections as it is told to. */
async function crowded(t: Test, databaseUrl: string) {
  const real = parseDatabaseUrl(databaseUrl)
  if (!('socketDir' in real)) throw new Error('the test database is on a unix socket')
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-connect-'))
  const refusals = { left: 0 }
  const server = createServer((near) => {
    near.on('error', () => {})
    if (refusals.left > 0) {
      refusals.left -= 1
      near.once('data', () => near.end(Buffer.concat([header, FULL])))
      return
    }
    const far = connect(postgresSocketPath(real.socketDir())).on('error', () => {})
    near.pipe(far).pipe(near)
  })
  server.listen(postgresSocketPath(dir))
  await once(server, 'listening')
  const pool = openPostgresPool({ ...real, socketDir: () => dir }, { max: 1 })
  t.teardown(async () => {
    await pool.end({ timeout: 0 })
    server.close()
    rmSync(dir, { recursive: true, force: true })
  })
  return { pool, refusals }
}

t.test('whatever needs a connection waits while the server has none left', async (t) => {
  const { settings } = await createTestDatabase(t)
  const { pool, refusals } = await crowded(t, settings.databaseUrl)
  const uses = {
    query: () => pool`select 1 as one`,
    'query of text': () => pool.unsafe('select 1 as one'),
    transaction: () => pool.begin((tx) => tx`select 1 as one`),
  }
  for (const [name, use] of Object.entries(uses)) {
    pool.renew()
    refusals.left = 3
    t.match(await use(), [{ one: 1 }], name)
    t.equal(refusals.left, 0, `${name}: the server has refused it before`)
  }
})

t.test('a server that stays full is an error within seconds', async (t) => {
  const { settings } = await createTestDatabase(t)
  const { pool, refusals } = await crowded(t, settings.databaseUrl)
  refusals.left = Number.MAX_SAFE_INTEGER
  await t.rejects(pool`select 1`, { code: '53300' })
})
