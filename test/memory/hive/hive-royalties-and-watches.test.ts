import t from 'tap'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { createHiveExcerptLookup } from '../../../memory/hive/hive-excerpt-lookup.ts'
import { createRoyaltyStore } from '../../../persistence/hive/royalty-store.ts'
import { createHiveWatchStore } from '../../../persistence/hive/hive-watch-store.ts'
import { createHiveStore } from '../../../persistence/hive/hive-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createRetentionSweeper } from '../../../persistence/retention-sweeper.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'
import { findInvariantViolations } from '../../support/actors/test-actor-node.ts'
import {
  TEST_AUTHOR_AGENT_ID,
  TOOL_CALL_ID,
  createManualClock,
  TEST_READER_AGENT_ID,
} from '../../support/tools/test-tool-context.ts'

const owed = (sql: Sql) => sql`select promo from royalties order by at`

/** Reads the given number of entries of the author, in one answer or in one each. */
async function reads(
  sql: Sql,
  reader: string,
  count: number,
  places: 'one' | 'own',
  callId = TOOL_CALL_ID,
) {
  const rows = Array.from({ length: count }, (_, at) => [newUuidV7(1_000), at + 1] as const)
  for (const [id] of rows)
    await sql`insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
      values (${id}, ${TEST_AUTHOR_AGENT_ID}, 'x', 'base', '{}', 0.8, true, ${TOOL_CALL_ID}, now())`
  await sql`insert into aggregates values (${TEST_AUTHOR_AGENT_ID}, 'agent', 1) on conflict do nothing`
  for (const [id, place] of rows)
    await sql`insert into hive_reads values (${id}, ${reader}, true, ${callId}, '2026-11-21', false,
      '2026-11-21T10:00:00Z', ${places === 'one' ? place : 1}, true)`
}

t.test('the royalties per reader are limited', async (t) => {
  const { sql } = await createTestDatabase(t)
  await reads(sql, TEST_READER_AGENT_ID, 10, 'one')
  t.equal((await owed(sql)).length, 3, 'of an answer the first three')
  await reads(sql, TEST_READER_AGENT_ID, 60, 'own')
  t.equal((await owed(sql)).length, 50, 'of a day fifty')
  t.ok(
    (await owed(sql)).every(({ promo }) => promo),
    'what cost nothing is owed in credits',
  )
})

t.test('only calls paid in cash earn royalties in cash', async (t) => {
  const { sql } = await createTestDatabase(t)
  for (const [cash, promo] of [
    [5_000, 0],
    [4_000, 1_000],
  ] as const) {
    const [callId, reader] = [newUuidV7(1_000), newUuidV7(1_000)]
    await sql`insert into calls (owner, call_id, operation, rail, cost_micros, status, ms, ghost, at)
      values (${reader}, ${callId}, 'refuel', 'credits', ${cash + promo}, 'ok', 1, false, '2026-11-21T10:00:00Z')`
    for (const [part, amount] of [
      ['promo', promo],
      ['held', cash - 900],
      ['cash', 900],
    ] as const) {
      if (amount === 0) continue
      const [credit, kind] =
        part === 'cash' ? ['treasury:fees', 'fee'] : ['platform:tools', 'charge']
      await sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, at)
        values (${newUuidV7(1_000)}, 'x', ${`agent:${reader}:${part}`}, ${credit}, ${amount}, ${kind}, ${callId}, now())`
    }
    await reads(sql, reader, 1, 'own', callId)
    const [last] = await sql`select promo from royalties where reader = ${reader}`
    t.equal(last?.['promo'], promo > 0)
  }
})

t.test(
  'the royalties of an answer are together at most the price that was paid for it',
  async (t) => {
    const { sql } = await createTestDatabase(t)
    const paid = async (price: number, entries: number) => {
      const [callId, reader] = [newUuidV7(1_000), newUuidV7(1_000)]
      await sql`insert into calls (owner, call_id, operation, rail, cost_micros, status, ms, ghost, at)
      values (${reader}, ${callId}, 'refuel', 'credits', ${price}, 'ok', 1, false, '2026-11-21T10:00:00Z')`
      await sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, at)
      values (${newUuidV7(1_000)}, 'x', ${`agent:${reader}:cash`}, 'platform:tools', ${price}, 'charge', ${callId}, now())`
      await sql.begin(async (tx) => {
        const ids = Array.from({ length: entries }, () => newUuidV7(1_000))
        for (const id of ids)
          await tx`insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
          values (${id}, ${TEST_AUTHOR_AGENT_ID}, 'x', 'base', '{}', 0.8, true, ${TOOL_CALL_ID}, now())`
        await tx`insert into aggregates values (${TEST_AUTHOR_AGENT_ID}, 'agent', 1) on conflict do nothing`
        await tx`insert into hive_reads select x.id::uuid, ${reader}, true, ${callId}, '2026-11-21', false,
        '2026-11-21T10:00:00Z', x.place, true from unnest(${ids}::text[]) with ordinality x(id, place)`
      })
      const rows = await sql<{ amount: bigint }[]>`
      select amount_micros as amount from royalties where reader = ${reader} and not promo`
      return rows.map(({ amount }) => Number(amount))
    }
    t.strictSame(await paid(5_000, 3), [1_666, 1_666, 1_666], 'in equal parts')
    t.strictSame(await paid(5_000, 1), [5_000])
    t.strictSame(await paid(100_000, 2), [20_000, 20_000], 'and 0.02 for each at most')
    t.strictSame(await paid(2, 3), [], 'less than a part is nothing')

    await sql`update royalty_pool set cash_micros = 5000`
    const store = createRoyaltyStore(sql)
    while ((await store.pay(new Date(0), true)) > 0);
    const [{ sum } = { sum: 0n }] = await sql<{ sum: bigint }[]>`
    select sum(amount_micros)::bigint as sum from royalties where paid_by is not null`
    t.equal(sum, 4_998n, 'a pool below 0.02 pays the small ones')
  },
)

t.test('only fees paid in cash fund payments in cash', async (t) => {
  const { sql } = await createTestDatabase(t)
  const store = createRoyaltyStore(sql)
  const at = Date.UTC(2026, 10, 21)
  await store.pay(new Date(at), true)
  for (const [part, amount] of Object.entries({
    promo: 40_000,
    'held:promo': 80_000,
    held: 300,
    cash: 100,
  }))
    await sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
      values (${newUuidV7(at)}, 'x', ${`agent:${TEST_READER_AGENT_ID}:${part}`}, 'treasury:fees', ${amount}, 'fee', ${new Date(at)})`
  await store.pay(new Date(at + 60_000), true)
  const [pool] = await sql`select promo_micros as promo, cash_micros as cash from royalty_pool`
  t.strictSame({ ...pool }, { promo: 30_000n, cash: 100n }, 'a quarter of them')
})

t.test('an author with many royalties takes no more of a round than others', async (t) => {
  const { sql } = await createTestDatabase(t)
  const [first, second, third] = [newUuidV7(1_000), newUuidV7(2_000), newUuidV7(3_000)]
  const owe = (author: string, count: number, at: string) =>
    sql`insert into royalties (entry_id, reader, day, author, amount_micros, promo, at)
      select gen_random_uuid(), gen_random_uuid(), '2026-11-21', ${author}, 20000, true, ${at}::timestamptz
        from generate_series(1, ${count})`
  await owe(first, 20, '2026-11-20')
  await owe(second, 2, '2026-11-21')
  await owe(third, 1, '2026-11-21')
  const store = createRoyaltyStore(sql)
  const round = async (usdc: number) => {
    await sql`update royalty_pool set promo_micros = promo_micros + ${Math.round(usdc * 1e6)}`
    while ((await store.pay(new Date(0), true)) > 0);
    const rows = await sql<{ author: string; paid: number }[]>`
      select author, count(paid_by)::int as paid from royalties group by author order by author`
    return rows.map(({ paid }) => paid)
  }
  t.strictSame(await round(0.1), [2, 2, 1])
  t.strictSame(await round(0.1), [7, 2, 1], 'alone it has all of it')
  await owe(second, 5, '2026-11-21')
  t.strictSame(await round(0.02), [7, 3, 1], 'each in its turn')
  t.strictSame(await round(0.02), [8, 3, 1])
  t.match(await store.of(first), { earned: 400_000n, pending: 240_000n })
})

t.test('the earnings of an author are exact and read without a full scan', async (t) => {
  const { sql } = await createTestDatabase(t)
  const authors = [newUuidV7(1_000), newUuidV7(2_000), newUuidV7(3_000)] as const
  const [first] = authors
  const owe = (author: string, count: number) =>
    sql`insert into royalties (entry_id, reader, day, author, amount_micros, promo, at)
      select gen_random_uuid(), gen_random_uuid(), '2026-11-21', ${author}, 20000, true, now()
        from generate_series(1, ${count})`
  const store = createRoyaltyStore(sql)
  const told = () => Promise.all(authors.map((author) => store.of(author)))
  t.strictSame(await store.of(first), { earned: 0n, pending: 0n })
  await owe(first, 6_000)
  t.strictSame(await store.of(first), { earned: 120_000_000n, pending: 120_000_000n }, 'at once')
  await sql`update royalty_pool set promo_micros = 2000000`
  // Owed, paid and added up by many at once, some of it undone.
  const undone = sql
    .begin(async (tx) => {
      await tx`insert into royalties select gen_random_uuid(), reader, day, author, 20000, true, at
        from royalties limit 50`
      throw new Error('undone')
    })
    .catch(() => null)
  await Promise.all([
    undone,
    ...[1, 2, 3, 4].map(async () => {
      for (const author of authors) {
        await owe(author, 10)
        await store.addUp()
        await store.pay(new Date(0), true)
        t.equal((await store.of(author)).earned % 200_000n, 0n, 'whole commits only')
      }
    }),
  ])
  const sums = await sql<{ earned: bigint; pending: bigint }[]>`
    select sum(amount_micros)::bigint as earned,
           sum(amount_micros) filter (where paid_by is null)::bigint as pending
      from royalties group by author order by author`
  t.equal(sums[0]?.earned, 120_800_000n)
  t.strictSame(
    await told(),
    [...sums].map((row) => ({ ...row })),
  )
  const paid = sums.reduce((sum, { earned, pending }) => sum + earned - pending, 0n)
  t.equal(paid, 2_000_000n, 'all that was in the pool')
  while (await store.addUp());
  t.equal((await sql`select 1 from royalty_changes`).length, 0)
  t.strictSame(
    await told(),
    [...sums].map((row) => ({ ...row })),
  )
  t.equal((await sql`select 1 from royalty_sums`).length, 3)
  t.notOk('R2' in (await findInvariantViolations(sql)))
  await sql`alter table royalties rename to elsewhere`
  t.strictSame(
    await told(),
    [...sums].map((row) => ({ ...row })),
    'they are not looked at',
  )
})

async function watchers(sql: Sql) {
  const begin = async (
    keywords: readonly string[],
    agentId = TEST_READER_AGENT_ID,
    at = new Date(2_000),
  ) => {
    const rows = keywords.map((keyword) => ({
      watch_id: newUuidV7(2_000),
      agent_id: agentId,
      keyword,
      namespace: null,
      call_id: TOOL_CALL_ID,
      created_at: at.toISOString(),
    }))
    await sql`insert into hive_watches select r.* from
      jsonb_populate_recordset(null::hive_watches, ${JSON.stringify(rows)}::text::jsonb) r`
    return rows.map(({ watch_id }) => watch_id)
  }
  const end = (ids: readonly string[]) =>
    sql`insert into hive_watch_closures select r.* from jsonb_populate_recordset(null::hive_watch_closures,
      ${JSON.stringify(ids.map((watch_id) => ({ watch_id, agent_id: TEST_READER_AGENT_ID, at: new Date(3_000) })))}::text::jsonb) r`
  const write = (content: string) =>
    sql`insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
      values (${newUuidV7(2_500)}, ${TEST_AUTHOR_AGENT_ID}, ${content}, 'base', '{}', 0.8, true, ${TOOL_CALL_ID}, ${new Date(2_500)})`
  const found = async () => {
    const [row] = await sql<{ n: number; queries: number }[]>`
      select count(*)::int as n, count(distinct query_id)::int as queries from hive_matches`
    return row
  }
  return { store: createHiveWatchStore(sql), begin, end, write, found }
}
const numbered = (word: string, count: number) =>
  Array.from({ length: count }, (_, at) => `blobfish ${word}${at}`)

t.test('a commit matches up to 300 watches, a job the rest, without losses', async (t) => {
  const { sql } = await createTestDatabase(t)
  const { store, begin, write, found } = await watchers(sql)
  await begin(numbered('y', 5_001), TEST_AUTHOR_AGENT_ID)
  const words = numbered('x', 700)
  await begin(words)
  await write(words.join(' '))
  t.match(await found(), { n: 0 }, 'as many were compared as a write may be')
  const [late] = await begin(
    ['X699 blobfish'],
    TEST_AUTHOR_AGENT_ID.replace(/.$/, 'f'),
    new Date(2_600),
  )
  t.ok(late)
  t.equal(await store.matchMore(), true)
  t.match(await found(), { n: 300 })
  while (await store.matchMore());
  t.match(await found(), { n: 700, queries: 700 }, 'each once')
  t.match(
    await store.of(TEST_AUTHOR_AGENT_ID.replace(/.$/, 'f')),
    [{ matches: 0 }],
    'what it began after',
  )
  const watches = await store.of(TEST_READER_AGENT_ID)
  t.ok(watches.every(({ matches }) => matches === 1))
  const asked = { agentId: TEST_READER_AGENT_ID, watchId: null, limit: 50, day: '2026-11-21' }
  const first = await store.matches({ ...asked, after: 0n })
  const next = await store.matches({ ...asked, after: first.at(-1)?.id ?? 0n })
  t.equal(new Set([...first, ...next].map(({ id }) => id)).size, 100)
})

t.test('an entry written while its words are first watched is found', async (t) => {
  const { sql } = await createTestDatabase(t)
  const { store, begin, write, found } = await watchers(sql)
  await write('A blob has fees.')
  const matched = async () => {
    while (await store.matchMore());
    return (await found())?.n
  }
  await sql.begin(async (writer) => {
    // Its commit has looked for watches, and there is none yet.
    await writer`
      insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
      select gen_random_uuid(), agent_id, content, namespace, tags, confidence, true, call_id, at + interval '1 second'
        from hive_entries`
    await begin(['blob fees'], TEST_READER_AGENT_ID, new Date(3_000))
    t.equal(await matched(), 0, 'no match yet')
  })
  await waitUntilTrue('it is found', async () => (await matched()) === 1)
  await write('The fees of a blob.')
  t.equal(await matched(), 2)
  t.match(await store.of(TEST_READER_AGENT_ID), [{ matches: 2 }], 'and not what was written before')
  await waitUntilTrue(
    'nothing is left',
    async () => (await sql`select from hive_new_queries`).length === 0,
  )
  t.equal(await matched(), 2, 'each once')
})

t.test(
  'watches of the same words share a query, which is removed with the last of them',
  async (t) => {
    const { sql } = await createTestDatabase(t)
    const { store, begin, end, write, found } = await watchers(sql)
    const ids = await begin(['blob fees', 'the fee of blobs', 'Fees  blob', ...numbered('y', 20)])
    t.match(await sql`select count(*)::int as n from hive_queries`, [{ n: 21 }])
    await write('The fees of a blob.')
    t.match(await found(), { n: 1 })
    t.strictSame(
      (await store.of(TEST_READER_AGENT_ID)).slice(0, 3).map(({ matches }) => matches),
      [1, 1, 1],
    )
    t.ok(await store.has(TEST_READER_AGENT_ID, ids[0] ?? ''))
    t.notOk(await store.has(TEST_AUTHOR_AGENT_ID, ids[0] ?? ''))
    await end(ids.slice(1))
    t.match(await sql`select query::text from hive_queries`, [{ query: "'blob' & 'fee'" }])
    await end(ids)
    t.match(await sql`select count(*)::int as n from hive_queries`, [{ n: 0 }])
    t.notOk(await store.has(TEST_READER_AGENT_ID, ids[0] ?? ''))
  },
)

t.test('no query operator widens the searched entries', async (t) => {
  const { sql } = await createTestDatabase(t)
  await sql`
    insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
    select gen_random_uuid(), ${TEST_AUTHOR_AGENT_ID}, case when n = 0 then 'gas and bread' else 'x' end, 'base', '{}', 0.8, true,
           ${TOOL_CALL_ID}, to_timestamp(n) from generate_series(0, 2000) n`
  const frequencies = { entries: 100_000, shares: new Map([['gas', 0.5]]) }
  const asked = { namespace: null, minConfidence: 0, agentId: null, reader: 'x', day: '2026-11-21' }
  const totalOf = async (text: string) =>
    (await createHiveStore(sql).search({ ...asked, text, candidates: 5, frequencies, exact: true }))
      .total
  t.equal(await totalOf('gas bread'), 1, 'both words are rarely there')
  for (const text of ['gas or pasta', 'gas -pasta', 'gas -"pasta bread"'])
    t.equal(await totalOf(text), 0, text)
  t.equal(await totalOf('bread -gasoline'), 1)
})

t.test('the look-up beside a call uses words without operators', async (t) => {
  const asked: string[] = []
  const look = createHiveExcerptLookup(async ({ text }) => {
    asked.push(text)
    return { entries: [] }
  }, createManualClock())
  await look('gas OR "fees" -base or')
  t.strictSame(asked, ['gas fees base'])
})

t.test('watch results and featured entries are deleted after their retention', async (t) => {
  const { sql } = await createTestDatabase(t)
  for (const days of [29, 31, 89, 91]) {
    await sql`insert into hive_matches (query_id, entry_id, author, at)
      select 1, gen_random_uuid(), ${TEST_AUTHOR_AGENT_ID}, now() - make_interval(days => ${120 - days})`
    await sql`insert into hive_features
      select gen_random_uuid(), ${TEST_AUTHOR_AGENT_ID}, ${TOOL_CALL_ID}, now(), now() - make_interval(days => ${days})`
  }
  await createRetentionSweeper(sql).sweep()
  t.match(await sql`select count(*)::int as n from hive_matches`, [{ n: 1 }])
  t.match(await sql`select count(*)::int as n from hive_features`, [{ n: 3 }])
})
