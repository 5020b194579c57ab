import { mkdtempSync, rmSync } from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { openPool } from '../../persistence/postgres/connect.ts'
import { socketPath } from '../../persistence/postgres/pid-file.ts'
import { testDatabase } from '../support/database.ts'

/** What a server says when it lets a client in: no password, then ready for a query. */
const WELCOME = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49])

t.test('arrays go in and come out as they are', async (t) => {
  const { sql } = await testDatabase(t)
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

t.test('a server that ends right after the welcome costs the query, not the process', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-connect-'))
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write(WELCOME)
      socket.once('data', () => socket.destroy())
    })
  })
  server.listen(socketPath(dir))
  await once(server, 'listening')
  const sql = openPool({ socketDir: () => dir, database: 'gas', user: 'gas' }, { max: 1 })
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
})
