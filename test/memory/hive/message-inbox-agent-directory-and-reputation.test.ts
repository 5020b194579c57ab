import t from 'tap'
import type { Test } from 'tap'
import { DAY, HOUR } from '../../../core/clock.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { createHiveSearchService } from '../../../memory/hive/hive-search-and-trends.ts'
import { createHiveTextReservations } from '../../../memory/hive/hive-text-reservations.ts'
import {
  createReputationService,
  computeReputation,
  wilsonLowerBound,
} from '../../../memory/agents/reputation.ts'
import { createAgentExistenceAndActivityLookup } from '../../../persistence/agents/agent-lookup.ts'
import { createHiveStore } from '../../../persistence/hive/hive-store.ts'
import { createHiveDuplicateTextStore } from '../../../persistence/hive/hive-duplicate-text-store.ts'
import { createAgentMessageStore } from '../../../persistence/agents/agent-message-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createReputationStore } from '../../../persistence/agents/reputation-store.ts'
import { asMicros } from '../../../core/money.ts'
import agentPing from '../../../tools/comms/agent-ping.ts'
import hiveRead from '../../../tools/memory/hive-read.ts'
import hiveWrite from '../../../tools/memory/hive-write.ts'
import swarmBroadcast from '../../../tools/comms/swarm-broadcast.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import {
  TEST_AUTHOR_AGENT_ID,
  TOOL_CALL_ID,
  createRecordingToolContext,
  createManualClock,
  TEST_READER_AGENT_ID,
} from '../../support/tools/test-tool-context.ts'
import type { RecordedToolEffects } from '../../support/tools/test-tool-context.ts'

/** Inserts staged rows the way the commit does. */
async function commit(sql: Sql, { rows }: RecordedToolEffects) {
  for (const { table, row } of rows) {
    const [listed] = await sql`select from stageable where name = ${table}`
    if (listed === undefined) throw new Error(`${table} takes no staged rows`)
    await sql`insert into ${sql(table)} select r.* from
      jsonb_populate_record(null::${sql(table)}, ${JSON.stringify(row)}::text::jsonb) r`
  }
}

async function shared(t: Test) {
  const { sql } = await createTestDatabase(t)
  const clock = createManualClock()
  const hive = { ...createHiveSearchService(createHiveStore(sql), clock), promoRoyalties: true }
  const texts = createHiveTextReservations(createHiveDuplicateTextStore(sql), clock)
  const write = async (content: string, more: object = {}, agentId = TEST_AUTHOR_AGENT_ID) => {
    const { context: given, recorded } = createRecordingToolContext({
      clock,
      hiveTexts: texts,
      caller: { agentId },
    })
    const output = await hiveWrite.run({ content: content.padEnd(50, ' .'), ...more }, given)
    await commit(sql, recorded)
    return output
  }
  const read = async (
    input: Parameters<typeof hiveRead.run>[0],
    caller: object = { agentId: TEST_READER_AGENT_ID },
    ghost: 'off' | 'stealth' = 'off',
  ) => {
    const { context: given, recorded } = createRecordingToolContext({ clock, hive, caller, ghost })
    const output = await hiveRead.run(input, given)
    await commit(sql, recorded)
    return { ...output, staged: recorded.rows }
  }
  return { sql, clock, hive, write, read }
}

t.test('a message is in the inbox until it expires', async (t) => {
  const { sql, clock } = await shared(t)
  const messages = createAgentMessageStore(sql)
  const { context: given, recorded } = createRecordingToolContext({ clock })
  const { message_id: id } = await agentPing.run(
    { target_agent_id: TEST_READER_AGENT_ID, message: 'hi' },
    given,
  )
  await commit(sql, recorded)
  const now = () => new Date(clock.now())
  t.match(await messages.inboxOf(TEST_READER_AGENT_ID, now(), 10, null), [
    {
      id,
      from: TEST_AUTHOR_AGENT_ID,
      to: TEST_READER_AGENT_ID,
      kind: 'ping',
      subject: null,
      body: 'hi',
    },
  ])
  t.strictSame(await messages.inboxOf(TEST_READER_AGENT_ID, now(), 10, id), [])
  t.strictSame(await messages.inboxOf(TEST_AUTHOR_AGENT_ID, now(), 10, null), [])
  clock.pass(7 * DAY)
  t.strictSame(await messages.inboxOf(TEST_READER_AGENT_ID, now(), 10, null), [])
  t.equal(await messages.sweep(now()), 1)
})

async function agent(sql: Sql, agentId: string, at: number) {
  await sql`insert into agents (agent_id, name, created_at) values (${agentId}, 'a', ${new Date(at)})`
}
const callOf = (sql: Sql, agentId: string, at: number, status = 'ok', ghost = false) => sql`
  insert into calls (owner, call_id, agent_id, operation, tool, rail, cost_micros, status, ms, ghost, at)
  values (${agentId}, ${newUuidV7(at)}, ${agentId}, 'refuel', 'price_feed', 'free', 0, ${status}, 1, ${ghost}, ${new Date(at)})`

t.test('the directory lists agents by last activity', async (t) => {
  const { sql, clock } = await shared(t)
  const directory = createAgentExistenceAndActivityLookup(sql)
  const now = clock.now()
  await agent(sql, TEST_READER_AGENT_ID, now)
  t.equal(await directory.has(TEST_READER_AGENT_ID), true)
  t.equal(await directory.has(TEST_READER_AGENT_ID.toUpperCase()), true)
  t.equal(await directory.has(TEST_AUTHOR_AGENT_ID), false)
  await callOf(sql, TEST_AUTHOR_AGENT_ID, now - HOUR)
  await callOf(sql, TEST_READER_AGENT_ID, now - 2 * HOUR)
  await callOf(sql, TOOL_CALL_ID, now - DAY - 1)
  t.strictSame(await directory.activeSince(now - DAY, 10, null), [
    TEST_AUTHOR_AGENT_ID,
    TEST_READER_AGENT_ID,
  ])
  t.strictSame(await directory.activeSince(now - DAY, 10, TEST_AUTHOR_AGENT_ID), [
    TEST_READER_AGENT_ID,
  ])
  t.strictSame(await directory.activeSince(now - DAY, 1, null), [TEST_AUTHOR_AGENT_ID])

  const { context: given, recorded } = createRecordingToolContext({
    clock,
    directory,
    caller: { agentId: TEST_READER_AGENT_ID },
  })
  t.match(await swarmBroadcast.run({ topic: 't', message: 'm' }, given), { recipients_notified: 1 })
  await commit(sql, recorded)
  t.match(await sql`select * from broadcasts`, [
    { from_agent: TEST_READER_AGENT_ID, topic: 't', body: 'm', recipients: 1 },
  ])
})

t.test('a reputation is computed from the ledger, without private calls and entries', async (t) => {
  const { sql, clock, write, read } = await shared(t)
  const usage = createReputationService(createReputationStore(sql), clock)
  t.equal(await usage.reputation(TEST_AUTHOR_AGENT_ID), null)
  await agent(sql, TEST_AUTHOR_AGENT_ID, clock.now() - 30 * DAY)
  t.match(await usage.reputation(TEST_AUTHOR_AGENT_ID), {
    score: 6,
    tier: 'newcomer',
    calls: 0,
    reliability: 0,
    ageDays: 30,
  })
  for (let n = 0; n < 9; n += 1) await callOf(sql, TEST_AUTHOR_AGENT_ID, clock.now() - n)
  await callOf(sql, TEST_AUTHOR_AGENT_ID, clock.now() - 10, 'failed')
  await callOf(sql, TEST_AUTHOR_AGENT_ID, clock.now() - 11, 'failed', true)
  await write('Something public and useful about validators and disks')
  await write('Something private and useful about validators and disks', { is_public: false })
  await read({ query: 'useful validators' })
  await sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, at) values
    (${newUuidV7(clock.now())}, ${TEST_READER_AGENT_ID}, ${`agent:${TEST_READER_AGENT_ID}:cash`}, ${`agent:${TEST_AUTHOR_AGENT_ID}:cash`}, 1500000, 'tip', ${new Date(clock.now())}),
    (${newUuidV7(clock.now())}, ${TEST_READER_AGENT_ID}, ${`agent:${TEST_READER_AGENT_ID}:cash`}, ${`agent:${TEST_AUTHOR_AGENT_ID}:cash`}, 9000000, 'send', ${new Date(clock.now())})`
  const found = await usage.reputation(TEST_AUTHOR_AGENT_ID)
  t.match(found, { calls: 10, reliability: 0.5958, tipsReceived: 1.5, hiveEntries: 1, ageDays: 30 })
  t.strictSame((await createReputationStore(sql).standingOf(TEST_AUTHOR_AGENT_ID))?.hiveReads, 1)
})

t.test('the score rises with every component and stays within 100', async (t) => {
  const now = Date.UTC(2026, 10, 21)
  const nobody = {
    createdAt: new Date(now),
    calls: 0,
    succeeded: 0,
    tipsReceived: asMicros(0n),
    hiveEntries: 0,
    hiveReads: 0,
  }
  t.match(computeReputation(nobody, now), { score: 0, tier: 'newcomer' })
  const everything = {
    createdAt: new Date(0),
    calls: 1e6,
    succeeded: 1e6,
    tipsReceived: asMicros(10n ** 12n),
    hiveEntries: 1e4,
    hiveReads: 1e6,
  }
  t.match(computeReputation(everything, now), { score: 100, tier: 'mythic' })
  const middling = { ...nobody, calls: 400, succeeded: 390 }
  t.ok(computeReputation(middling, now).score > 50)
  for (const [name, value] of Object.entries({
    hiveEntries: 9,
    hiveReads: 9,
    tipsReceived: asMicros(2_000_000n),
  })) {
    t.ok(
      computeReputation({ ...middling, [name]: value }, now).score >
        computeReputation(middling, now).score,
      name,
    )
  }
  t.equal(wilsonLowerBound(0, 0), 0)
  t.ok(wilsonLowerBound(1, 1) < wilsonLowerBound(100, 100))
})
