import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { createActorHistory } from '../../actors/inspection/actor-history.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import {
  consumeFreeCallCommand,
  reserveFreeCallCommand,
} from '../../payments/commands/daily-free-call-commands.ts'
import { createJournalHistoryStore } from '../../persistence/inspector/journal-history-store.ts'
import {
  archiveJournalMonths,
  readFirstUnarchivedJournalMonth,
} from '../../persistence/journal-archive/archive-journal-months.ts'
import { exportJournalMonth } from '../../persistence/journal-archive/export-journal-month.ts'
import { listJournalArchives } from '../../persistence/journal-archive/list-journal-archives.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import {
  createTestActorNodePair,
  createSingleTestActorNode,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  createJournalMonths,
  createOldAgents,
  findViolations,
  journalPartitionsOf,
  moveJournalTo,
  payCall,
  readAgentHistory,
  versionOf,
} from '../support/ledger/old-journal-months.ts'

/** Old months of the journal in files, and everything that still reads them. */

const BEFORE = '2026-04'

const archive = (sql: Sql, dir: string, before = BEFORE) =>
  archiveJournalMonths(sql, { dir, before })

t.test('months leave the database, and everything still reads them', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const dir = t.testdir()
  const { agent, resting, receiver } = await createOldAgents(sql, one)
  t.strictSame(await findViolations(sql, dir), {}, 'before')
  const version = await versionOf(sql, agent)
  const before = await readAgentHistory(sql, dir, agent, version)
  t.equal(before.length > 110, true, `${before.length} entries`)

  const archived = await archive(sql, dir)
  t.match(archived, [
    { month: '2026-01', rows: 40 },
    {
      month: '2026-02',
      rows: 70 + (await versionOf(sql, resting)) + (await versionOf(sql, receiver)),
    },
    { month: '2026-03', rows: 0, file: null },
  ])
  t.strictSame(await journalPartitionsOf(sql), [])
  const [left] = await sql<{ rows: number }[]>`
    select count(*)::int as rows from journal where aggregate_id = ${agent}`
  t.equal(left?.rows, version - 110)
  t.strictSame(await findViolations(sql, dir), {}, 'with nothing newer for two of them, too')
  t.strictSame(await readAgentHistory(sql, dir, agent, version), before, 'the same states')
  t.equal((await readAgentHistory(sql, dir, resting, 100)).length, await versionOf(sql, resting))

  const history = createActorHistory(createJournalHistoryStore(sql, dir))
  const actor = { kind: 'agent', id: agent, aggregateId: agent }
  for (const at of [1, 2, 40, 41, 110, 111, version]) {
    const expected = before.find((entry) => entry.version <= at)
    const found = await history.at(actor, at)
    t.strictSame(found?.entry, expected, `version ${at}`)
    t.equal(
      found?.next ?? null,
      before.findLast((entry) => entry.version > (expected?.version ?? 0))?.version ?? null,
    )
  }
  t.equal(await history.versionAt(agent, new Date('2026-01-10T00:00:07.500Z')), 7)
  t.equal(await history.versionAt(agent, new Date('2026-02-01T00:00:00Z')), 40)
  t.equal(await history.versionAt(agent, new Date('2026-01-09T00:00:00Z')), null)
  const announced = [1, 39, 111, 120].map((at) => ({ ...actor, version: at }))
  const states = await history.statesOf(announced as Parameters<typeof history.statesOf>[0])
  t.strictSame(
    states,
    announced.map(({ version: at }) => before.find((entry) => entry.version <= at)?.state),
    'states of announced steps',
  )

  await payCall(one, agent)
  await payCall(one, resting)
  t.strictSame(await findViolations(sql, dir), {}, 'after new calls')
  t.strictSame(await archive(sql, dir), [], 'nothing is left to do')
})

t.test(
  'a file is text that other programs read, and its name is that of its content',
  async (t) => {
    const { sql, one } = await createSingleTestActorNode(t)
    const dir = t.testdir()
    const { agent } = await createOldAgents(sql, one)
    const rows = await sql<{ changed: unknown; command: unknown; at: Date }[]>`
    select changed, command, at from journal where aggregate_id = ${agent} and version <= 40 order by version`
    await archive(sql, dir, '2026-02')
    const [file = '', ...others] = readdirSync(dir)
    t.strictSame(others, [])
    const [listed] = await listJournalArchives(sql, dir)
    t.match(listed, { month: '2026-01', file, rows: 40, present: true })
    t.match(file, new RegExp(`^journal-2026-01-${listed?.sha256.slice(0, 16)}\\.ndjson\\.gz$`))
    const [head, ...lines] = gunzipSync(readFileSync(join(dir, file)))
      .toString()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    t.match(head, { month: '2026-01' })
    t.strictSame(
      lines.map(({ changed, command, at, version }) => ({
        changed,
        command,
        at: new Date(String(at)),
        version,
      })),
      rows.map((row, at) => ({ ...row, version: at + 1 })),
    )
  },
)

t.test('a missing or changed file is named, and newer states need none', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const dir = t.testdir()
  const { agent } = await createOldAgents(sql, one)
  for (let calls = 0; calls < 90; calls++) await payCall(one, agent)
  const version = await versionOf(sql, agent)
  const [first, second] = await archive(sql, dir)
  const path = join(dir, second?.file ?? '')
  const saved = readFileSync(path)
  rmSync(path)
  const history = createActorHistory(createJournalHistoryStore(sql, dir))
  const actor = { kind: 'agent', id: agent, aggregateId: agent }
  const missing = {
    code: 'journal_archive_unavailable',
    details: { file: second?.file },
    message: `The file ${second?.file} of the archived journal is missing.`,
  }
  await t.rejects(history.at(actor, 60), missing)
  await t.rejects(history.page(actor, 60, 5), missing)
  t.match(await history.at(actor, 20), { entry: { version: 20 } }, 'the other month')
  t.match(await history.at(actor, version), { entry: { version } })
  t.strictSame(Object.keys(await findViolations(sql, dir)), ['I10c'], 'only the file')
  t.match((await findViolations(sql, dir))['I10c'], [{ file: path, why: /ENOENT/ }])
  t.strictSame(Object.keys(await findViolations(sql, null)), ['I10c'])
  t.match(await listJournalArchives(sql, dir), [
    { file: first?.file, present: true },
    { file: second?.file, present: false },
  ])

  const content = Buffer.from(saved)
  content[content.length - 9] = (content.at(-9) ?? 0) ^ 1
  writeFileSync(path, content)
  t.match((await findViolations(sql, dir))['I10c'], [
    { file: path, why: 'its content has changed' },
  ])
  writeFileSync(path, saved)
  t.strictSame(await findViolations(sql, dir), {}, 'once the file is back')

  await sql`delete from journal_archive_segments where aggregate_id = ${agent} and first_version = 1`
  t.match(await findViolations(sql, dir), { I10: [{ id: agent }] }, 'a lost segment')
})

t.test('a changed row of a file, an actor or a newer row is found', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const dir = t.testdir()
  const { agent, resting } = await createOldAgents(sql, one)
  await archive(sql, dir)
  await sql`update actors set state = jsonb_set(state, '{context,promo}', '{"$n":"1"}') where id = ${resting}`
  t.match(await findViolations(sql, dir), { I10b: [{ aggregateId: resting }] }, 'of one at rest')
  await sql`delete from actors where id = ${resting}`
  t.match(await findViolations(sql, dir), { I10b: [{ why: 'not stored' }] })
  await sql`delete from journal where aggregate_id = ${agent} and version = 111`
  t.match(await findViolations(sql, dir), { I10: [{ id: agent }] })
  await sql`update journal_archive_segments set absorbed = null`
  t.match(await findViolations(sql, dir), { I12: [{ times: null }] }, 'absorbed messages count')
})

t.test('a crash between the file and the detach leaves everything where it was', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const dir = t.testdir()
  const { agent } = await createOldAgents(sql, one)
  const version = await versionOf(sql, agent)
  const before = await readAgentHistory(sql, dir, agent, version)
  const month = {
    month: '2026-01',
    partition: 'journal_2026_01',
    end: new Date('2026-02-01T00:00:00Z'),
  }
  const { written } = await exportJournalMonth(sql, dir, month)
  writeFileSync(join(dir, 'journal-2026-01.0a0b0c0d.partial'), 'an interrupted one')
  t.strictSame(await findViolations(sql, dir), {}, 'nothing reads the file')
  t.strictSame(await readAgentHistory(sql, dir, agent, version), before)
  t.equal((await journalPartitionsOf(sql)).includes('journal_2026_01'), true)

  const [again] = await archive(sql, dir, '2026-02')
  t.match(again, { file: written?.file, rows: 40 }, 'the same content has the same name')
  t.strictSame(readdirSync(dir), [written?.file], 'and the rest is removed')
  t.strictSame(await findViolations(sql, dir), {})
  t.strictSame(await readAgentHistory(sql, dir, agent, version), before)

  await sql`create table journal_2026_01 (like journal)`
  await archive(sql, dir, '2026-02')
  const [found] = await sql`select to_regclass('journal_2026_01') as name`
  t.equal(found?.['name'], null, 'a month that was detached and not dropped is dropped')
})

t.test('visitors stay, and rows that a clock put into the wrong month', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const dir = t.testdir()
  await createJournalMonths(sql)
  const [agent, visitor] = [await one.born(5), 'visitor-of-old']
  for (let calls = 0; calls < 20; calls++) await payCall(one, agent)
  const taken = { tool: 'hive_read', limit: 10, callId: newUuidV7(Date.now()) }
  await one.ask(visitor, reserveFreeCallCommand, taken)
  await one.ask(visitor, consumeFreeCallCommand, { ...taken, record: null })
  await moveJournalTo(sql, visitor, '2026-01', 1, 10)
  const version = await versionOf(sql, agent)
  await moveJournalTo(sql, agent, '2026-01', 1, 12)
  await moveJournalTo(sql, agent, '2026-02', 13, 18)
  // Version 9 was written by a node that was ahead, in the next month.
  await moveJournalTo(sql, agent, '2026-02', 9, 9)
  const before = await readAgentHistory(sql, dir, agent, version)
  t.match(await archive(sql, dir, '2026-02'), [{ month: '2026-01', rows: 8 }])
  t.strictSame(await findViolations(sql, dir), {})
  t.strictSame(await readAgentHistory(sql, dir, agent, version), before)
  t.match(await archive(sql, dir, '2026-03'), [{ month: '2026-02', rows: 10 }], 'and with the next')
  t.strictSame(await findViolations(sql, dir), {})
  t.strictSame(await readAgentHistory(sql, dir, agent, version), before)
  const rows = await sql`select from journal where aggregate_id = ${visitor}`
  t.equal(rows.length, await versionOf(sql, visitor), 'all of the visitor')
})

t.test('a journal with a gap is not archived', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const dir = t.testdir()
  const { agent } = await createOldAgents(sql, one)
  await sql`delete from journal where aggregate_id = ${agent} and version = 20`
  await t.rejects(archive(sql, dir), {
    message: new RegExp(`${agent} has no version 20 before 21`),
  })
  t.equal((await journalPartitionsOf(sql)).length, 3)
  t.strictSame(readdirSync(dir), [])
  t.strictSame((await findViolations(sql, dir))['I10c'], undefined)
})

t.test('nodes commit meanwhile, and a second process does nothing', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const dir = t.testdir()
  const { agent, resting } = await createOldAgents(sql, one)
  const busy = Promise.all(
    Array.from({ length: 60 }, (_, at) =>
      payCall(at % 2 === 0 ? one : two, at % 3 === 0 ? resting : agent),
    ),
  )
  const runs = await Promise.allSettled([archive(sql, dir), archive(sql, dir)])
  await busy
  t.strictSame(runs.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  t.match(
    runs.find(({ status }) => status === 'rejected'),
    { reason: { message: 'the journal is being archived by another process' } },
  )
  t.strictSame(await journalPartitionsOf(sql), [])
  t.strictSame(await findViolations(sql, dir), {})
})

t.test('a reader of the journal delays the detach, not the commits', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const dir = t.testdir()
  const { agent } = await createOldAgents(sql, one)
  const held = await holdJournal(t, sql)
  const archiving = archive(sql, dir)
  await waitForLockRequest(sql)
  await payCall(one, agent)
  held.release()
  t.match(await archiving, [{ month: '2026-01' }, { month: '2026-02' }, { month: '2026-03' }])
  t.strictSame(await findViolations(sql, dir), {})
})

/** Reads the journal in a transaction that stays open. */
async function holdJournal(t: Test, sql: Sql) {
  const signals = new EventTarget()
  const released = once(signals, 'release')
  const reading = new Promise<void>((begun, failed) => {
    const held = sql.begin(async (tx) => {
      await tx`select count(*) from journal`
      begun()
      await released
    })
    held.catch(failed)
    t.teardown(() => held)
  })
  await reading
  return { release: () => void signals.dispatchEvent(new Event('release')) }
}

async function waitForLockRequest(sql: Sql): Promise<void> {
  for (;;) {
    const waiting = await sql`
      select from pg_stat_activity where wait_event_type = 'Lock' and query like 'alter table%detach%'`
    if (waiting.length > 0) return
  }
}

t.test('the current month and the one before it are never archived', async (t) => {
  const { sql } = await createSingleTestActorNode(t)
  const [row] = await sql<{ first: string }[]>`
    select to_char(date_trunc('month', now() at time zone 'UTC') - interval '1 month', 'YYYY-MM') as first`
  t.equal(await readFirstUnarchivedJournalMonth(sql), row?.first)
  await sql`select ensure_partitions(3)`
  t.strictSame(await archive(sql, t.testdir(), row?.first ?? ''), [])
})
