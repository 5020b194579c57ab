import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { listJournalArchives } from '../../../persistence/journal-archive/list-journal-archives.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createTestActorNode } from '../../support/actors/test-actor-node.ts'
import {
  createOldAgents,
  findViolations,
  journalPartitionsOf,
  readAgentHistory,
  versionOf,
} from '../../support/ledger/old-journal-months.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'

/** `gas archive` is killed at each of its steps: nothing is lost, and the next run does the rest. */

async function createOldJournal(t: Test) {
  const { sql, settings } = await createTestDatabase(t)
  const dir = t.testdir()
  const { agent } = await createOldAgents(sql, createTestActorNode(t, sql))
  const version = await versionOf(sql, agent)
  const read = () => readAgentHistory(sql, dir, agent, version)
  const before = await read()

  const start = () => {
    const child = spawn(
      process.execPath,
      [...serviceProgramArgs('cli'), 'archive', 'journal', '--before', '2026-04'],
      {
        env: {
          PATH: process.env['PATH'] ?? '',
          DATABASE_URL: settings.databaseUrl,
          JOURNAL_ARCHIVE_DIR: dir,
          DATA_DIR: t.testdirName,
        },
        stdio: 'inherit',
      },
    )
    return { child, ended: once(child, 'exit') }
  }

  /** Runs until the condition holds, and kills the run there. */
  async function killWhen(holds: () => Promise<boolean>, what: string): Promise<void> {
    const { child, ended } = start()
    await eventually(holds, what)
    child.kill('SIGKILL')
    await ended
  }

  async function assertNothingLost(t: Test, when: string): Promise<void> {
    t.strictSame(await findViolations(sql, dir), {}, `${when}: gas verify finds nothing`)
    t.strictSame(await read(), before, `${when}: the same history`)
  }

  async function assertNextRunCompletes(t: Test): Promise<void> {
    t.strictSame(await start().ended, [0, null])
    t.strictSame(await journalPartitionsOf(sql), [])
    t.strictSame(
      readdirSync(dir),
      (await listJournalArchives(sql, dir)).map(({ file }) => file).sort(),
      'no file but those that are listed',
    )
    await assertNothingLost(t, 'after the next run')
  }
  return { sql, dir, killWhen, assertNothingLost, assertNextRunCompletes }
}

/** Whether a session waits for a lock on this table. */
const isWaitedFor = (sql: Sql, table: string) => async () =>
  (await sql`select from pg_locks where not granted and relation = ${table}::regclass`).length > 0

t.test('killed while it writes a file', async (t) => {
  const { sql, dir, killWhen, assertNothingLost, assertNextRunCompletes } =
    await createOldJournal(t)
  await sql.unsafe(`
    create function wait_at_gate() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(1); return new; end $$;
    create trigger gate before insert on journal_archive_segments for each row execute function wait_at_gate()`)
  const holder = await sql.reserve()
  await holder`begin`
  await holder`select pg_advisory_xact_lock(1)`
  const isAtGate = async () =>
    (await sql`select from pg_locks where not granted and locktype = 'advisory'`).length > 0
  await killWhen(isAtGate, 'a block whose place is not stored')
  t.match(readdirSync(dir), [/\.partial$/])
  await holder`rollback`
  holder.release()
  await assertNothingLost(t, 'after the kill')
  await assertNextRunCompletes(t)
})

t.test('killed between the file and the detach', async (t) => {
  const { sql, dir, killWhen, assertNothingLost, assertNextRunCompletes } =
    await createOldJournal(t)
  const holder = await sql.reserve()
  await holder`begin`
  await holder`lock table journal_2026_01 in row exclusive mode`
  await killWhen(isWaitedFor(sql, 'journal_2026_01'), 'a month that cannot be detached')
  t.match(readdirSync(dir), [/\.ndjson\.gz$/])
  await holder`rollback`
  holder.release()
  await assertNothingLost(t, 'after the kill')
  await assertNextRunCompletes(t)
})

t.test('killed after a month is detached', async (t) => {
  const { sql, killWhen, assertNothingLost, assertNextRunCompletes } = await createOldJournal(t)
  const isArchived = async () =>
    (await sql`select from journal_archives where month = '2026-01-01'`).length > 0
  await killWhen(isArchived, 'an archived month')
  await assertNothingLost(t, 'after the kill')
  await assertNextRunCompletes(t)
})
