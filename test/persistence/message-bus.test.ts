import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startPostgresNotifyBus } from '../../persistence/message-bus.ts'
import { parseDatabaseUrl } from '../../persistence/postgres/database-url.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

/** Longer than a line is trusted without an answer. */
const STALE_MS = 2_200

/** A bus, and what its line was last asked. */
async function start(t: Test, log: (line: string) => void = () => {}) {
  const { sql, settings } = await createTestDatabase(t)
  const target = parseDatabaseUrl(settings.databaseUrl ?? '')
  const bus = await startPostgresNotifyBus({ sql, target, log })
  t.teardown(bus.stop)
  async function line() {
    const [found] = await sql<{ pid: number; at: Date }[]>`
      select pid, query_start as at from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()
         and (query ilike 'listen%' or query = 'select 1')
       order by backend_start desc limit 1`
    if (found === undefined) throw new Error('no line')
    return found
  }
  return { bus, line }
}

t.test('a line that nobody relies on is left alone, and asked by the first who does', async (t) => {
  const { bus, line } = await start(t)
  const { at } = await line()
  await pause(STALE_MS)
  t.strictSame((await line()).at, at, 'it was not asked')
  t.notOk(bus.healthy(), 'nobody knows whether it heard everything')
  t.notOk(bus.isDown(), 'but it was not asked yet')
  t.ok(await bus.answers(1_000))
  t.ok(bus.healthy())
  await pause(STALE_MS)
  t.ok(bus.healthy(), 'it is asked each second from now on')
  t.ok((await line()).at > at)
})

t.test('a line that hangs is never trusted', async (t) => {
  // It is down for a few milliseconds only: another line is opened at once.
  const downAt: boolean[] = []
  const { bus, line } = await start(t, (text) => {
    if (text === 'bus: the line is down') downAt.push(bus.isDown())
  })
  const { pid } = await line()
  process.kill(pid, 'SIGSTOP')
  t.teardown(() => process.kill(pid, 'SIGCONT'))
  await pause(STALE_MS)
  t.notOk(bus.healthy())
  let missed = false
  bus.subscribe(
    'any',
    () => {},
    () => (missed = true),
  )
  t.notOk(await bus.answers(500))
  while (downAt.length === 0) await pause(20)
  t.strictSame(downAt, [true])
  while (!bus.healthy()) await pause(20)
  t.ok(missed, 'another line is there, and its listeners were told first')
})
