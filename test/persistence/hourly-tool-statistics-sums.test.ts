import t from 'tap'
import { createDatabaseAdjustedClock, DAY, HOUR } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { createCallLogStore } from '../../persistence/calls/call-log-store.ts'
import { createHiveStore } from '../../persistence/hive/hive-store.ts'
import { createCommunityToolCallStore } from '../../persistence/tools/community-tool-call-store.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

/** Figures of tools are sums by hour: they count each call once and read no stored call again. */

const clock = createDatabaseAdjustedClock()
const now = clock.now()

t.test('trends and rates of tools read sums, not the stored calls', async (t) => {
  const { sql } = await createTestDatabase(t)
  const add = (calls: number, ago: number, more: object = {}) => {
    const at = now - ago
    const row = { status: 'ok', error_code: null, ms: 10, ghost: false, ...more }
    const rows = Array.from({ length: calls }, () => ({
      ...{ owner: 'x', call_id: newUuidV7(at), operation: 'refuel', tool: 'price_feed' },
      ...{ rail: 'free', cost_micros: 0, at: new Date(at), ...row },
    }))
    return sql`insert into calls ${sql(rows)}`
  }
  const [hive, log] = [createHiveStore(sql), createCallLogStore(sql)]
  const callsByDay = async () => {
    const { calls } = await hive.activity(new Date(now))
    return calls.toSorted((a, b) => a.daysAgo - b.daysAgo).map((day) => [day.daysAgo, day.count])
  }
  await add(3, 2 * DAY)
  await add(5, 0)
  await add(2, 0, { ghost: true })
  await add(1, 0, { status: 'failed', error_code: 'provider_unavailable', ms: 30 })
  await add(4, 0, { status: 'failed', error_code: 'not_enough_memories' })
  t.strictSame(await callsByDay(), [
    [0, 5],
    [2, 3],
  ])
  await add(2, 0)
  // Deleting stored answers writes new versions of old rows.
  await sql`update calls set response = null`
  t.strictSame(await callsByDay(), [
    [0, 7],
    [2, 3],
  ])
  await sql`truncate calls`
  t.strictSame(await callsByDay(), [
    [0, 7],
    [2, 3],
  ])
  const stats = await log.toolStats()
  t.match(stats.get('price_feed'), { calls: 11 })
  t.ok(Math.abs((stats.get('price_feed')?.successRate ?? 0) - 10 / 11) < 1e-9)
})

t.test('one node judges at a time, from sums of counted calls', async (t) => {
  const { sql } = await createTestDatabase(t)
  const builder = newUuidV7(now)
  const proven = new Date(now - HOUR)
  await sql`
    insert into community_tools (slug, looks, tool_id, builder_id, builder_name, builder_visitor, state, definition,
      price_micros, accepts_promo, review, secret_number, measured_from, registered_at, change_id)
    values ('c/x/y', 'c/x/y', ${newUuidV7(now)}, ${builder}, 'x', 'v', 'probation', '{}', 1000, true, 'none', 1, ${proven},
      ${proven}, ${newUuidV7(now)})`
  const add = (payer: string, more: object = {}) => sql`
    insert into community_tool_calls ${sql({
      ...{ call_id: newUuidV7(now), slug: 'c/x/y', builder_id: builder, payer, ok: true, ms: 5 },
      ...{ price_micros: 1000, share_micros: 800, counted: true, at: new Date(now), ...more },
    })}`
  const calls = createCommunityToolCallStore(sql)
  const nextRound = async () => {
    await sql`update statistics_cursor set judged_at = '-infinity'`
    return (await calls.takeRound(1)).get('c/x/y')
  }
  for (const payer of ['a', 'a', 'b']) await add(payer)
  await add('c', { ok: false })
  await add('d', { counted: false })
  await add('e', { at: new Date(now - 2 * HOUR) })
  t.match(await nextRound(), { since: proven, calls: 4, successes: 3, payers: 2 })
  t.equal((await calls.takeRound(1)).size, 0, 'another node has just judged')
  await add('c')
  t.match(await nextRound(), { calls: 5, successes: 4, payers: 3 }, 'new calls count once')
  await sql`truncate community_tool_calls`
  t.match(await nextRound(), { calls: 5, successes: 4, payers: 3 }, 'stored calls are not read')
  await sql`update statistics_cursor set judged_at = '-infinity'`
  t.equal((await calls.takeRound(6)).size, 0, 'too few calls')
  const later = new Date(now)
  await sql`update community_tools set measured_from = ${later}`
  t.equal(await nextRound(), undefined, 'a proven endpoint starts anew')
})

t.test('refused inputs count once half of the calls of five payers are refused', async (t) => {
  const { sql } = await createTestDatabase(t)
  const [builder, proven] = [newUuidV7(now), new Date(now - HOUR)]
  await sql`
    insert into community_tools (slug, looks, tool_id, builder_id, builder_name, builder_visitor, state, definition,
      price_micros, accepts_promo, review, secret_number, measured_from, registered_at, change_id)
    values ('c/x/y', 'c/x/y', ${newUuidV7(now)}, ${builder}, 'x', 'v', 'probation', '{}', 1000, true, 'none', 1, ${proven},
      ${proven}, ${newUuidV7(now)})`
  const add = (payer: string, refused: boolean, ok = !refused) => sql`
    insert into community_tool_calls ${sql({
      ...{ call_id: newUuidV7(now), slug: 'c/x/y', builder_id: builder, payer, ms: 5, refused },
      ...{
        price_micros: 1000,
        share_micros: 0,
        at: new Date(now),
        ok,
        counted: !refused,
      },
    })}`
  const calls = createCommunityToolCallStore(sql)
  const nextRound = async () => {
    await sql`update statistics_cursor set judged_at = '-infinity'`
    return (await calls.takeRound(1)).get('c/x/y')
  }
  for (const payer of ['a', 'a', 'a', 'b']) await add(payer, false)
  for (let n = 0; n < 9; n += 1) await add('b', true)
  for (const payer of ['a', 'c', 'd', 'e']) await add(payer, true)
  t.match(await nextRound(), { calls: 4, successes: 4, failingPayers: 0 }, 'four such payers')
  await add('f', true)
  t.match(await nextRound(), { calls: 17, successes: 4, failingPayers: 5 }, 'not the one of a')
  t.match((await calls.figures()).get('c/x/y'), { calls: 17, successes: 4, refunds: 13 })
  for (let n = 0; n < 9; n += 1) await add('g', false, false)
  t.match(await nextRound(), { calls: 26, failingPayers: 6 }, 'one payer fails as one')
})
