import t, { type Test } from 'tap'
import { createDatabaseAdjustedClock, HOUR, MINUTE } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { openPostgresPool, type Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { parseDatabaseUrl } from '../../persistence/postgres/database-url.ts'
import { createPublicStatisticsStore } from '../../persistence/statistics/public-statistics-store.ts'
import { createCommunityToolCallStore } from '../../persistence/tools/community-tool-call-store.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres/test-database.ts'

/** Rows that commit late are in the figures once, though a pass reads the last seconds only. */

const clock = createDatabaseAdjustedClock()
const minutesAgo = (minutes: number) => new Date(clock.now() - minutes * MINUTE)

/** Each row has an owner of its own, so that no transaction waits for another. */
function newRow(at: Date) {
  const callId = newUuidV7(clock.now())
  return { owner: `x ${callId}`, call_id: callId, at }
}

const addCall = (sql: Sql, ...times: Date[]) => {
  const rows = times.map((at) => ({
    ...{ ...newRow(at), operation: 'refuel', tool: 'price_feed', rail: 'free', cost_micros: 1_000 },
    ...{ status: 'ok', ms: 10, ghost: false },
  }))
  return sql`insert into calls ${sql(rows)}`
}

const addPrice = (sql: Sql, ...times: Date[]) => {
  const rows = times.map((at) => ({
    ...{ ...newRow(at), id: newUuidV7(clock.now()), kind: 'price', source: 'free' },
    ...{ amount_micros: 1_000, fee_micros: 180, promo_micros: 0 },
  }))
  return sql`insert into ledger ${sql(rows)}`
}

/** The rows that are counted alike, each in a table of its own. */
const COUNTED_ROWS = [addCall, addPrice]

async function addRows(sql: Sql, at = new Date(clock.now())) {
  for (const add of COUNTED_ROWS) await add(sql, at)
}

/** Brings the sums up to date, and tells how many calls and prices they include. */
async function assertCounted(t: Test, sql: Sql, count: number, why: string) {
  const statistics = createPublicStatisticsStore(sql)
  await statistics.rollUp()
  const { lastDay, volume } = await statistics.totals()
  t.equal(lastDay.calls, count, `calls: ${why}`)
  t.equal(Number(volume), count * 1_000, `prices: ${why}`)
}

/** A connection with an open transaction, which `commit` ends. */
async function openTransaction(t: Test, { settings }: TestDatabase): Promise<Sql> {
  const connection = openPostgresPool(parseDatabaseUrl(settings.databaseUrl), { max: 1 })
  t.teardown(() => connection.end({ timeout: 1 }))
  await connection`begin`
  return connection
}

t.test('a row that commits minutes after its time stamp counts once', async (t) => {
  const { sql } = await createTestDatabase(t)
  await addRows(sql)
  await assertCounted(t, sql, 1, 'in time')
  let count = 1
  for (const add of COUNTED_ROWS) {
    await add(sql, minutesAgo(5))
    await createPublicStatisticsStore(sql).rollUp()
  }
  await assertCounted(t, sql, (count += 1), 'late')
  for (const add of COUNTED_ROWS) {
    await add(sql, ...[20, 60, 40].map(minutesAgo))
    await createPublicStatisticsStore(sql).rollUp()
  }
  await assertCounted(t, sql, (count += 3), 'the earliest row of a late batch bounds the search')
  await assertCounted(t, sql, count, 'once')
  t.strictSame([...(await sql`select from late_rows`)], [], 'nothing late is left')
})

t.test('a late call of a community tool counts once', async (t) => {
  const { sql } = await createTestDatabase(t)
  const builder = newUuidV7(clock.now())
  const proven = new Date(clock.now() - HOUR)
  await sql`
    insert into community_tools (slug, looks, tool_id, builder_id, builder_name, builder_visitor, state, definition,
      price_micros, accepts_promo, review, secret_number, measured_from, registered_at, change_id)
    values ('c/x/y', 'c/x/y', ${newUuidV7(clock.now())}, ${builder}, 'x', 'v', 'probation', '{}', 1000, true, 'none', 1,
      ${proven}, ${proven}, ${newUuidV7(clock.now())})`
  const add = (at: Date) => sql`
    insert into community_tool_calls ${sql({
      ...{
        call_id: newUuidV7(clock.now()),
        slug: 'c/x/y',
        builder_id: builder,
        payer: 'a',
        ok: true,
        ms: 5,
      },
      ...{ price_micros: 1000, share_micros: 800, counted: true, at },
    })}`
  const tools = createCommunityToolCallStore(sql)
  const judged = async () => {
    await sql`update statistics_cursor set judged_at = '-infinity'`
    return (await tools.takeRound(1)).get('c/x/y')?.calls
  }
  await add(new Date(clock.now()))
  t.equal(await judged(), 1)
  await add(minutesAgo(5))
  t.equal(await judged(), 2)
  t.equal(await judged(), 2)
})

t.test('a pass does not read rows of the last minutes', async (t) => {
  const { sql } = await createTestDatabase(t)
  await addRows(sql)
  await assertCounted(t, sql, 1, 'in time')
  for (const table of ['calls', 'ledger']) await sql`alter table ${sql(table)} disable trigger user`
  await addRows(sql, minutesAgo(5))
  await addRows(sql)
  await assertCounted(t, sql, 2, 'what no trigger has recorded is not found')
})

t.test('rows of transactions that stay open over passes count once', async (t) => {
  const database = await createTestDatabase(t)
  const { sql } = database
  await assertCounted(t, sql, 0, 'none')
  const pairs = await Promise.all(
    COUNTED_ROWS.map(async (add) => {
      const [early, waiting] = [openTransaction(t, database), openTransaction(t, database)]
      return { add, early: await early, waiting: await waiting }
    }),
  )
  const [first] = await Promise.all(pairs.map(({ waiting }) => waiting`select now() as now`))
  const started = first?.[0]?.['now'] as Date
  // In time when they are inserted, and older than any window at the commits.
  const at = new Date(started.getTime() - 1_500)
  for (const { add, early } of pairs) await add(early, at)
  let count = 0
  while (clock.now() < started.getTime() + 3_800) {
    await addRows(sql)
    await assertCounted(t, sql, (count += 1), 'others')
  }
  for (const { early } of pairs) await early`commit`
  await assertCounted(t, sql, (count += 1), 'committed long after the insert')
  for (const { add, waiting } of pairs) {
    await add(waiting, at)
    await waiting`commit`
    await createPublicStatisticsStore(sql).rollUp()
  }
  await assertCounted(t, sql, (count += 1), 'inserted long after the transaction began')
  await addRows(sql)
  await assertCounted(t, sql, count + 1, 'once')
})

t.test('a transaction of a role that the station may not watch loses no row', async (t) => {
  const database = await createTestDatabase(t)
  const { sql, settings } = database
  const role = `watcher_${process.pid}`
  await sql`create role ${sql(role)} login`
  await sql`grant all on all tables in schema public to ${sql(role)}`
  const url = settings.databaseUrl.replace('user=gas', `user=${role}`)
  const watcher = openPostgresPool(parseDatabaseUrl(url), { max: 2 })
  await assertCounted(t, watcher, 0, 'none')
  const hidden = await openTransaction(t, database)
  // Writes no late row, as if they had been inserted in time minutes ago.
  await hidden`set local session_replication_role = replica`
  await addRows(hidden, minutesAgo(5))
  await assertCounted(t, watcher, 0, 'not committed')
  await hidden`commit`
  await assertCounted(t, watcher, 1, 'committed')
  await watcher.end({ timeout: 1 })
  await sql`drop owned by ${sql(role)}`
  await sql`drop role ${sql(role)}`
})

t.test('a clock of the database that is set back loses no row', async (t) => {
  const { sql } = await createTestDatabase(t)
  await assertCounted(t, sql, 0, 'none')
  await sql`update statistics_cursor set until = now() + interval '1 hour'`
  await addRows(sql)
  await assertCounted(t, sql, 1, 'set back by an hour')
  await assertCounted(t, sql, 1, 'once')
})

t.test('late rows of another cluster go with its sums', async (t) => {
  const { sql } = await createTestDatabase(t)
  await addRows(sql)
  await assertCounted(t, sql, 1, 'before')
  await sql`insert into late_rows values ('4000000000', now() - interval '1 day')`
  await sql`update statistics_cursor set cluster = 'another'`
  await addRows(sql, minutesAgo(5))
  await assertCounted(t, sql, 2, 'summed again')
  await assertCounted(t, sql, 2, 'once')
  t.strictSame([...(await sql`select from late_rows`)], [])
})
