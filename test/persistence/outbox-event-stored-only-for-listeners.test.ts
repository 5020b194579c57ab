import t from 'tap'
import { setTimeout as sleep } from 'node:timers/promises'
import { commitBatch } from '../../persistence/commit-batch.ts'
import { createOutboxStore } from '../../persistence/outbox-store.ts'
import { createRetentionSweeper } from '../../persistence/retention-sweeper.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import {
  SAMPLE_COMMITTED_AT_MS,
  sampleAggregateChanges,
} from '../support/actors/sample-aggregate-changes.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

/** One command of an agent with an event that is stored only if somebody hears it. */
const commitEvent = (sql: Sql, id: string, version: number, onlyIfHeard = true) => {
  const event = {
    type: 'tool_call',
    to: id,
    data: {},
    at: SAMPLE_COMMITTED_AT_MS,
    onlyIfHeard,
  } as const
  return commitBatch(sql, [sampleAggregateChanges(id, version, { events: [event] })], [])
}
const stored = async (sql: Sql) =>
  (await sql<{ agent: string }[]>`select agent_id as agent from outbox order by id`).map(
    ({ agent }) => agent,
  )
const addWebhook = (sql: Sql, id: string, backpackId: string | null = null) =>
  sql`insert into webhooks (id, agent_id, backpack_id, url, events, sealed, state, created_at)
    values (${`wh_${id}`}, ${id}, ${backpackId}, 'https://x.test', '{topup}', '', 'active', now())`
/** Resolves to whether a promise is still pending after a while. */
const waits = (promise: Promise<unknown>) =>
  Promise.race([promise.then(() => false), sleep(300).then(() => true)])

t.test('an event that nobody can be told is not stored', async (t) => {
  const { sql } = await createTestDatabase(t)
  t.equal((await commitEvent(sql, 'deaf', 0)).storedEvents, 0)
  t.equal((await commitEvent(sql, 'deaf', 1, false)).storedEvents, 1, 'other events are stored')
  t.strictSame(await stored(sql), ['deaf'])
})

t.test('a listener or a webhook of the agent has its events stored', async (t) => {
  const { sql } = await createTestDatabase(t)
  const outbox = createOutboxStore(sql)
  for (const id of ['stream', 'hook', 'pager', 'deaf']) await commitEvent(sql, id, 0)
  await outbox.listen('stream')
  await addWebhook(sql, 'hook')
  await addWebhook(sql, 'pager', 'bp_1')
  for (const id of ['stream', 'hook', 'pager', 'deaf']) await commitEvent(sql, id, 1)
  t.strictSame(await stored(sql), ['stream', 'hook'])
})

for (const [kind, begin] of [
  ['a stream', (sql: Sql) => createOutboxStore(sql).listen('a')],
  ['a webhook', (sql: Sql) => addWebhook(sql, 'a')],
] as const)
  t.test(`${kind} that begins during a commit waits for it and hears the next`, async (t) => {
    const { sql } = await createTestDatabase(t)
    await commitEvent(sql, 'a', 0)
    let begun: Promise<unknown> = Promise.resolve()
    await sql.begin(async (tx) => {
      await commitEvent(tx as unknown as Sql, 'a', 1)
      begun = Promise.resolve(begin(sql))
      t.ok(await waits(begun), 'it is not there before the commit that has missed it ends')
    })
    await begun
    await commitEvent(sql, 'a', 2)
    t.strictSame(await stored(sql), ['a'])
  })

t.test('a listener that is prolonged keeps its mark, a new one begins at the end', async (t) => {
  const { sql } = await createTestDatabase(t)
  const outbox = createOutboxStore(sql)
  await commitEvent(sql, 'a', 0, false)
  t.equal(await outbox.listen('a'), 1n, 'cursors below the last id have a gap')
  await commitEvent(sql, 'a', 1)
  t.equal(await outbox.listen('a'), 1n)
  const until = async () => (await sql`select until from event_listeners`)[0]?.['until'] as Date
  await sql`update event_listeners set until = now() + interval '30 days'`
  const before = await until()
  t.strictSame(await outbox.keepListening(['a']), new Map([['a', 1n]]))
  t.ok((await until()) > before, 'prolonged')
  await createRetentionSweeper(sql).sweep()
  t.equal((await sql`select from event_listeners`).length, 1)
  await sql`update event_listeners set until = now() - interval '1 second'`
  await createRetentionSweeper(sql).sweep()
  t.equal((await sql`select from event_listeners`).length, 0)
  await commitEvent(sql, 'a', 2)
  t.equal((await stored(sql)).length, 2, 'nobody can resume any more')
  t.equal(await outbox.listen('a'), 2n)
})
