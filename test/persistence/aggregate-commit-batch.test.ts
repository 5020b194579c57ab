import t from 'tap'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { asMicros } from '../../core/money.ts'
import { commitBatch, type AggregateChanges } from '../../persistence/commit-batch.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import {
  sampleActorRow,
  sampleCallRow,
  sampleAggregateChanges,
  sampleInboxMessage,
  SAMPLE_COMMITTED_AT_MS,
  sampleTimerRow,
  sampleTransferRow,
} from '../support/actors/sample-aggregate-changes.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

/** One of everything. */
const everything = (id: string, oldVersion: number, from: string): AggregateChanges =>
  sampleAggregateChanges(id, oldVersion, {
    actors: [sampleActorRow(id)],
    transfers: [sampleTransferRow(from)],
    calls: [sampleCallRow()],
    inbox: [sampleInboxMessage(`${id}-other`, from)],
    absorbed: [`${id}-waiting`],
    events: [{ type: 'topup', to: id, data: { from }, at: SAMPLE_COMMITTED_AT_MS }],
    removedTimers: [`${id}-old`],
    timers: [sampleTimerRow(`${id}-new`)],
    rows: [{ table: 'staged', row: { id: newUuidV7(SAMPLE_COMMITTED_AT_MS), body: from } }],
  })

async function database(t: Parameters<typeof createTestDatabase>[0]): Promise<Sql> {
  const { sql } = await createTestDatabase(t)
  await sql`create table staged (id uuid primary key, body text)`
  await sql`insert into stageable values ('staged')`
  return sql
}
const prepare = (sql: Sql, id: string) =>
  Promise.all([
    sql`insert into inbox values (${id}, ${`${id}-waiting`}, 'agent', '{}', now())`,
    sql`insert into timers values (${id}, 'agent', ${`${id}-old`}, now(), 'x', '{}')`,
  ])
const commit = (sql: Sql, all: AggregateChanges[]) => commitBatch(sql, all, [])
const versionOf = async (sql: Sql, id: string) =>
  (await sql`select version from aggregates where id = ${id}`)[0]?.['version'] ?? null
const TABLES = ['journal', 'actors', 'ledger', 'calls', 'inbox', 'outbox', 'timers', 'staged']
async function counts(sql: Sql): Promise<Record<string, number>> {
  const found = await Promise.all(
    TABLES.map(async (name) => {
      const [row] = await sql.unsafe<{ n: bigint }[]>(`select count(*) as n from ${name}`)
      return [name, Number(row?.n)] as const
    }),
  )
  return Object.fromEntries(found)
}

t.test(
  'a new aggregate starts at version 0, and the next command continues from there',
  async (t) => {
    const sql = await database(t)
    t.match(
      await commit(sql, [sampleAggregateChanges('a', 0, { actors: [sampleActorRow('a')] })]),
      {
        bad: new Set(),
      },
    )
    const twice = { ...sampleAggregateChanges('a', 1), newVersion: 3 }
    const [first] = twice.journal
    const journal = [
      first as (typeof twice.journal)[number],
      { ...(first as (typeof twice.journal)[number]), version: 3 },
    ]
    t.match(await commit(sql, [{ ...twice, journal }]), { bad: new Set() })
    t.equal(await versionOf(sql, 'a'), 3n)
    t.match(await counts(sql), { journal: 3, actors: 1 })
  },
)

t.test(
  'a stale command of a batch is skipped entirely, a fresh one is applied entirely',
  async (t) => {
    const sql = await database(t)
    await commit(sql, [sampleAggregateChanges('fresh', 0), sampleAggregateChanges('stale', 0)])
    await commit(sql, [sampleAggregateChanges('stale', 1)])
    await Promise.all([prepare(sql, 'fresh'), prepare(sql, 'stale')])
    const before = await counts(sql)
    const outcome = await commit(sql, [
      everything('stale', 1, 'bad'),
      everything('fresh', 1, 'good'),
    ])
    t.strictSame([...outcome.bad], ['stale'])
    t.strictSame([await versionOf(sql, 'fresh'), await versionOf(sql, 'stale')], [2n, 2n])
    const added = Object.entries(await counts(sql)).map(([name, n]) => [
      name,
      n - (before[name] ?? 0),
    ])
    t.strictSame(Object.fromEntries(added), {
      journal: 1,
      actors: 1,
      ledger: 1,
      calls: 1,
      inbox: 1,
      outbox: 1,
      timers: 0, // one removed, one added
      staged: 1,
    })
    const from = await sql`select body from staged union all select memo from transfers
    union all select data->>'from' from outbox union all select id from inbox where receiver like '%-other'`
    t.strictSame(
      from.map((row) => row['body']),
      Array(4).fill('good'),
    )
    const left = await sql`select id from timers order by id`
    t.strictSame(
      left.map((row) => row['id']),
      ['fresh-new', 'stale-old'],
    )
    const open =
      await sql`select receiver from inbox where absorbed_at is null and id like '%-waiting'`
    t.strictSame(
      open.map((row) => row['receiver']),
      ['stale'],
    )
  },
)

t.test('an aggregate without a row is reported, and nothing is stored', async (t) => {
  const sql = await database(t)
  const outcome = await commit(sql, [everything('ghost', 3, 'bad')])
  t.strictSame([...outcome.bad], ['ghost'])
  t.strictSame(Object.values(await counts(sql)), Array(TABLES.length).fill(0))
  t.equal(await versionOf(sql, 'ghost'), null)
})

t.test('one of four concurrent commits on one version succeeds, also at creation', async (t) => {
  const sql = await database(t)
  await commit(sql, [sampleAggregateChanges('a', 0)])
  const race = async (id: string, version: number) => {
    const outcomes = await Promise.all(
      [1, 2, 3, 4].map(() => commit(sql, [sampleAggregateChanges(id, version)])),
    )
    return outcomes.filter(({ bad }) => bad.size === 0).length
  }
  for (let round = 0; round < 10; round++) {
    t.equal(await race('a', 1 + round), 1)
    t.equal(await race(`born-${round}`, 0), 1)
  }
  t.equal(await versionOf(sql, 'a'), 11n)
  t.equal(await versionOf(sql, 'born-3'), 1n)
  t.match(await counts(sql), { journal: 21 })
})

t.test('batches that lock the same aggregates in another order do not deadlock', async (t) => {
  const sql = await database(t)
  const ids = ['a', 'b', 'c', 'd', 'e']
  await commit(
    sql,
    ids.map((id) => sampleAggregateChanges(id, 0)),
  )
  for (let version = 1; version <= 10; version++) {
    const outcomes = await Promise.all([
      commit(
        sql,
        ids.map((id) => sampleAggregateChanges(id, version)),
      ),
      commit(
        sql,
        ids.toReversed().map((id) => sampleAggregateChanges(id, version)),
      ),
    ])
    t.strictSame(
      outcomes.map(({ bad }) => bad.size).sort((a, b) => a - b),
      [0, 5],
    )
  }
})

t.test('an empty batch is accepted', async (t) => {
  const sql = await database(t)
  t.match(await commit(sql, []), { bad: new Set(), waiting: new Set() })
})

t.test('a message is absorbed once: the second time its aggregate is stale', async (t) => {
  const sql = await database(t)
  await commit(sql, [
    sampleAggregateChanges('a', 0, {
      inbox: [sampleInboxMessage('b', 'm1'), sampleInboxMessage('b', 'm2')],
    }),
  ])
  t.equal((await commit(sql, [sampleAggregateChanges('b', 0, { absorbed: ['m1'] })])).bad.size, 0)
  const again = await commit(sql, [sampleAggregateChanges('b', 1, { absorbed: ['m1', 'm2'] })])
  t.strictSame([...again.bad], ['b'])
  const open = await sql`select id from inbox where absorbed_at is null`
  t.strictSame(
    open.map((row) => row['id']),
    ['m2'],
  )
})

t.test('a message is stored once per receiver', async (t) => {
  const sql = await database(t)
  await commit(sql, [
    sampleAggregateChanges('a', 0, {
      inbox: [sampleInboxMessage('b', 'm1'), sampleInboxMessage('c', 'm1')],
    }),
  ])
  await commit(sql, [sampleAggregateChanges('a', 1, { inbox: [sampleInboxMessage('b', 'm1')] })])
  t.match(await counts(sql), { inbox: 2 })
})

t.test('an answered key makes its aggregate stale, for a day', async (t) => {
  const sql = await database(t)
  await commit(sql, [sampleAggregateChanges('a', 0, { calls: [sampleCallRow('k')] })])
  t.strictSame(
    [...(await commit(sql, [sampleAggregateChanges('a', 1, { calls: [sampleCallRow('k')] })])).bad],
    ['a'],
  )
  const others = await commit(sql, [
    sampleAggregateChanges('a', 1, { calls: [sampleCallRow('other')] }),
    sampleAggregateChanges('b', 0, { calls: [sampleCallRow('k')] }),
  ])
  t.equal(others.bad.size, 0, 'another key, another owner')
  await sql`update calls set at = at - interval '25 hours' where owner = 'a' and idempotency_key = 'k'`
  t.equal(
    (await commit(sql, [sampleAggregateChanges('a', 2, { calls: [sampleCallRow('k')] })])).bad.size,
    0,
  )
})

t.test('a row for an unlisted table is rejected with its whole batch', async (t) => {
  const sql = await database(t)
  for (const table of ['transfers', 'api_keys; drop table staged', 'nowhere']) {
    const rows = [{ table, row: {} }]
    await t.rejects(
      commit(sql, [sampleAggregateChanges('a', 0, { rows }), sampleAggregateChanges('b', 0)]),
      /takes no staged rows/,
    )
  }
  t.equal(await versionOf(sql, 'b'), null)
})

t.test('unusual texts are stored unchanged', async (t) => {
  const sql = await database(t)
  const odd = [
    'plain',
    '',
    'NULL',
    '"quoted"',
    "it's",
    'back\\slash "\\"',
    'a,b',
    '{a,b}',
    '\\x41',
    'ünïcode 日本 🚀\n\t',
    // The separator of joined columns, and what JSON escapes like it.
    '\u001f',
    '"\u001f","\\u001f\u001f',
    '\\u0000 \u0001\u007f\u2028',
  ]
  const journalOf = (text: string, at: number) =>
    sampleAggregateChanges(`${at} ${text}`, 0).journal.map((row) => ({
      ...row,
      command: JSON.stringify({ name: 'x', input: { text, none: null } }),
      changed: JSON.stringify([{ text }, null, []]),
    }))
  const all = odd.map((text, at) =>
    sampleAggregateChanges(`${at} ${text}`, 0, {
      journal: journalOf(text, at),
      actors: [sampleActorRow(`${at}`, JSON.stringify({ value: text, context: {} }))],
      transfers: [sampleTransferRow(text)],
      rows: [{ table: 'staged', row: { id: newUuidV7(SAMPLE_COMMITTED_AT_MS), body: text } }],
      events: [{ type: 'topup', to: text, data: { text }, at: SAMPLE_COMMITTED_AT_MS }],
    }),
  )
  t.equal((await commit(sql, all)).bad.size, 0)
  const sorted = [...odd].sort()
  const texts = async (rows: Promise<Iterable<{ text: string }>>) =>
    [...(await rows)].map(({ text }) => text).sort()
  t.strictSame(await texts(sql<{ text: string }[]>`select memo as text from transfers`), sorted)
  t.strictSame(await texts(sql<{ text: string }[]>`select body as text from staged`), sorted)
  t.strictSame(
    await texts(sql<{ text: string }[]>`select data->>'text' as text from outbox`),
    sorted,
  )
  t.strictSame(
    await texts(sql<{ text: string }[]>`select state->>'value' as text from actors`),
    sorted,
  )
  t.strictSame(
    await texts(
      sql<{ text: string }[]>`select substring(id from '^[0-9]+ (.*)$') as text from aggregates`,
    ),
    sorted,
  )
  t.strictSame(
    await texts(
      sql<{ text: string }[]>`select command->'input'->>'text' as text from journal
       where aggregate_id = split_part(aggregate_id, ' ', 1) || ' ' || (command->'input'->>'text')
         and changed->0->>'text' = command->'input'->>'text' and json_array_length(changed) = 3`,
    ),
    sorted,
    'each in the row of its aggregate',
  )
  const unstorable = { command: JSON.stringify({ name: '\0' }), changed: '[]' }
  const [row] = sampleAggregateChanges('nul', 0).journal
  const journal = row === undefined ? [] : [{ ...row, ...unstorable }]
  await t.rejects(commit(sql, [sampleAggregateChanges('nul', 0, { journal })]), { code: '22P05' })
  t.equal(await versionOf(sql, 'nul'), null, 'NUL is refused with its whole batch')
  await commit(sql, [sampleAggregateChanges('none', 0, { transfers: [sampleTransferRow(null)] })])
  t.equal((await sql`select 1 from transfers where memo is null`).length, 1, 'null stays null')
})

t.test('amounts beyond the precision of doubles are exact', async (t) => {
  const sql = await database(t)
  const amount = asMicros(9_007_199_254_740_993n)
  await commit(sql, [
    sampleAggregateChanges('a', 0, { transfers: [{ ...sampleTransferRow(), amount }] }),
  ])
  t.equal((await sql`select amount_micros from transfers`)[0]?.['amount_micros'], amount)
})

t.test('a ledger row cannot be changed or deleted', async (t) => {
  const sql = await database(t)
  await commit(sql, [sampleAggregateChanges('a', 0, { transfers: [sampleTransferRow()] })])
  await t.rejects(sql`update ledger set amount_micros = 1`, /append-only/)
  await t.rejects(sql`delete from ledger`, /append-only/)
  await t.rejects(sql`truncate ledger`, /append-only/)
  for (const bad of [{ amount: asMicros(0n) }, { amount: asMicros(-1n) }, { credit: 'a' }]) {
    const transfers = [{ ...sampleTransferRow(), ...bad }]
    await t.rejects(commit(sql, [sampleAggregateChanges('a', 1, { transfers })]), { code: '23514' })
  }
  t.equal(await versionOf(sql, 'a'), 1n)
})

t.test('commands are stored in the partition of their month', async (t) => {
  const sql = await database(t)
  await commit(sql, [
    sampleAggregateChanges('a', 0, { transfers: [sampleTransferRow()], calls: [sampleCallRow()] }),
  ])
  const rows = await sql`select tableoid::regclass::text as part from journal union
    select tableoid::regclass::text from ledger union select tableoid::regclass::text from calls`
  const month = new Date(SAMPLE_COMMITTED_AT_MS).toISOString().slice(0, 7).replace('-', '_')
  t.strictSame(rows.map((row) => String(row['part'])).sort(), [
    `calls_${month}`,
    `journal_${month}`,
    `ledger_${month}`,
  ])
})
