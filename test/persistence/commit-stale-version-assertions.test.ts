import t from 'tap'
import {
  commitBatch,
  type AggregateChanges,
  type VersionAssertion,
} from '../../persistence/commit-batch.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import {
  sampleCallRow,
  sampleAggregateChanges,
  sampleInboxMessage,
} from '../support/actors/sample-aggregate-changes.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'
import { waitUntilTrue } from '../support/schedules/make-schedule-slots-due.ts'

/** Replies without changes, with the versions that they depend on. */
const commit = (sql: Sql, all: AggregateChanges[], assertions: VersionAssertion[] = []) =>
  commitBatch(sql, all, assertions)
const versionOf = async (sql: Sql, id: string) =>
  (await sql`select version from aggregates where id = ${id}`)[0]?.['version'] ?? null

t.test('an assertion detects a stale version and writes nothing', async (t) => {
  const sql = (await createTestDatabase(t)).sql
  await commit(sql, [sampleAggregateChanges('a', 0), sampleAggregateChanges('b', 0)])
  await commit(sql, [sampleAggregateChanges('b', 1)])
  const outcome = await commit(
    sql,
    [],
    [
      { id: 'a', version: 1 },
      { id: 'b', version: 1 },
      { id: 'unborn', version: 0 },
      { id: 'gone', version: 2 },
    ],
  )
  t.strictSame([...outcome.bad].sort(), ['b', 'gone'])
  t.equal(await versionOf(sql, 'unborn'), null)
  t.equal((await sql`select from journal`).length, 3)
})

t.test(
  'an assertion in a batch with a commit of the same aggregate expects the version before it',
  async (t) => {
    const sql = (await createTestDatabase(t)).sql
    await commit(sql, [sampleAggregateChanges('a', 0)])
    t.equal(
      (await commit(sql, [sampleAggregateChanges('a', 1)], [{ id: 'a', version: 1 }])).bad.size,
      0,
    )
    t.strictSame(
      [...(await commit(sql, [sampleAggregateChanges('a', 1)], [{ id: 'a', version: 1 }])).bad],
      ['a'],
    )
    t.equal(await versionOf(sql, 'a'), 2n)
  },
)

t.test('a waiting inbox is reported only to the asserting command', async (t) => {
  const sql = (await createTestDatabase(t)).sql
  await commit(sql, [
    sampleAggregateChanges('a', 0, {
      inbox: [sampleInboxMessage('b', 'm1'), sampleInboxMessage('a', 'm2')],
    }),
  ])
  t.strictSame([...(await commit(sql, [sampleAggregateChanges('a', 1)])).waiting], [])
  t.strictSame([...(await commit(sql, [], [{ id: 'b', version: 0 }])).waiting], ['b'])
  await commit(sql, [sampleAggregateChanges('b', 0, { absorbed: ['m1'] })])
  t.strictSame([...(await commit(sql, [], [{ id: 'b', version: 1 }])).waiting], [])
})

t.test('messages absorbed by another node during a reply check are detected', async (t) => {
  const { sql } = await createTestDatabase(t)
  await commit(sql, [
    sampleAggregateChanges('a', 0, { inbox: [sampleInboxMessage('b', 'm1')] }),
    sampleAggregateChanges('b', 0),
  ])
  const checked = await sql.begin(async (other) => {
    // A batch that answers a key reads the calls in the middle of its checks: there it has to wait.
    await other`lock table calls in access exclusive mode`
    const answered = commit(
      sql,
      [sampleAggregateChanges('a', 1, { calls: [sampleCallRow('k')] })],
      [{ id: 'b', version: 1 }],
    )
    await waitUntilTrue('the batch waits', async () => {
      const waits =
        await sql`select from pg_locks where relation = 'calls'::regclass and not granted`
      return waits.length > 0
    })
    await commit(other as unknown as Sql, [sampleAggregateChanges('b', 1, { absorbed: ['m1'] })])
    return { answered }
  })
  const { bad, waiting } = await checked.answered
  t.ok(bad.has('b') || waiting.has('b'), 'the reply is not given on the state before')
  t.notOk(bad.has('a'), 'and what the batch changes is kept')
})
