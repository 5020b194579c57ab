import t from 'tap'
import type { Test } from 'tap'
import { DAY, HOUR, MINUTE } from '../../../core/clock.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import {
  createHiveSearchService,
  rankHiveCandidates,
  computeHiveTrends,
} from '../../../memory/hive/hive-search-and-trends.ts'
import { createHiveTextReservations } from '../../../memory/hive/hive-text-reservations.ts'
import { createHiveStore } from '../../../persistence/hive/hive-store.ts'
import { createHiveDuplicateTextStore } from '../../../persistence/hive/hive-duplicate-text-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import hiveRead from '../../../tools/memory/hive-read.ts'
import hiveTrending from '../../../tools/intelligence/hive-trending.ts'
import hiveWrite from '../../../tools/memory/hive-write.ts'
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

t.test('entries are found by words, stems and tags', async (t) => {
  const { write, read } = await shared(t)
  const written = await write('Base sequencer fees dropped sharply after the upgrade', {
    namespace: 'Base',
    tags: ['rollup'],
  })
  t.match(written, {
    namespace: 'base',
    royalty_per_read_usdc: 0.02,
    status: 'stored',
    created_at: '2026-11-21T10:00:00.000Z',
  })
  await write('Completely unrelated thought about cooking pasta at home')
  for (const query of ['sequencer fee', 'dropping', 'rollups', '"sequencer fees"', 'fees -pasta']) {
    const found = await read({ query })
    t.match(
      found,
      {
        total: 1,
        query,
        entries: [
          {
            id: written.id,
            agent_id: null,
            confidence: 0.8,
            namespace: 'base',
            created_at: written.created_at,
          },
        ],
      },
      query,
    )
    t.equal(found.entries.length, 1, query)
  }
  t.match(
    await read({ query: 'what happened to sequencer costs' }),
    { total: 1 },
    'any word when not all',
  )
  t.match(await read({ query: 'zebra' }), { total: 0, entries: [] })
  t.match(await read({ query: `'; truncate hive_entries; -- & | ! <-> :* ((` }), { total: 0 })
  t.match(await read({ query: 'the' }), { query: 'the' }, 'a stop word alone is no error')
})

t.test('typing errors match by trigrams', async (t) => {
  const { write, read } = await shared(t)
  await write('Arbitrum withdrawals take seven days through the canonical bridge')
  t.match(await read({ query: 'withdrawels' }), { total: 1 })
})

t.test('without pg_trgm the search has full text only, and no error', async (t) => {
  const { sql, write, read } = await shared(t)
  await sql`drop extension pg_trgm cascade`
  await write('Arbitrum withdrawals take seven days through the canonical bridge')
  t.match(await read({ query: 'withdrawal' }), { total: 1 })
  t.match(await read({ query: 'withdrawels' }), { total: 0 })
})

t.test('namespace, confidence and limit narrow the answer; total counts all matches', async (t) => {
  const { write, read } = await shared(t)
  for (const [namespace, confidence] of [
    ['defi', 0.9],
    ['defi', 0.4],
    ['nft', 0.9],
  ] as const) {
    await write(`Liquidity is thin on weekends in ${namespace}, ${confidence} say`, {
      namespace,
      confidence,
    })
  }
  t.match(await read({ query: 'liquidity' }), { total: 3, entries: { length: 3 } })
  t.match(await read({ query: 'liquidity', namespace: 'DeFi' }), { total: 2 })
  t.match(await read({ query: 'liquidity', namespace: 'defi', min_confidence: 0.5 }), {
    total: 1,
    entries: [{ confidence: 0.9 }],
  })
  t.match(await read({ query: 'liquidity', limit: 1 }), { total: 3, entries: { length: 1 } })
})

t.test('private entries are visible to their author only', async (t) => {
  const { write, read } = await shared(t)
  await write('Secret plan to corner the market of rare pepes', { is_public: false })
  t.match(await read({ query: 'secret plan' }), { total: 0 })
  t.match(await read({ query: 'secret plan' }, { agentId: null }), { total: 0 })
  t.match(await read({ query: 'secret plan' }, { agentId: TEST_AUTHOR_AGENT_ID }), { total: 1 })
})

t.test('a read counts once per reader, entry and UTC day, and never for the author', async (t) => {
  const { sql, clock, write, read } = await shared(t)
  const { id } = await write('Validators on Monad need 32 cores and a fast disk')
  const first = await read({ query: 'monad validators' })
  t.strictSame(first.staged, [
    {
      table: 'hive_reads',
      row: {
        entry_id: id,
        reader: TEST_READER_AGENT_ID,
        has_key: true,
        call_id: TOOL_CALL_ID,
        day: '2026-11-21',
        ghost: false,
        place: 1,
        owes_promo: true,
        at: '2026-11-21T10:00:00.000Z',
      },
    },
  ])
  t.strictSame((await read({ query: 'monad validators' })).staged, [])
  t.strictSame(
    (await read({ query: 'monad validators' }, { agentId: TEST_AUTHOR_AGENT_ID })).staged,
    [],
  )
  const visitor = await read({ query: 'monad validators' }, { agentId: null, visitor: 'v1' })
  t.match(visitor.staged, [{ row: { reader: 'v1', has_key: false } }])
  clock.pass(14 * HOUR)
  t.match((await read({ query: 'monad validators' })).staged, [{ row: { day: '2026-11-22' } }])
  t.match(await sql`select count(*) as n from hive_reads`, [{ n: 3n }])
})

t.test('a match weighs more than confidence, confidence more than age', async (t) => {
  const now = Date.UTC(2026, 10, 21)
  const entry = (id: string, match: number, confidence: number, days: number) => ({
    id,
    rank: match,
    confidence,
    at: new Date(now - days * DAY),
    content: '',
    namespace: '',
    agentId: TEST_AUTHOR_AGENT_ID,
    author: null,
    readToday: false,
  })
  const ranked = rankHiveCandidates(
    [
      entry('old', 0.5, 0.5, 60),
      entry('sure', 0.5, 0.9, 0),
      entry('match', 0.9, 0.5, 0),
      entry('new', 0.5, 0.5, 0),
    ],
    now,
  )
  t.strictSame(
    ranked.map(({ entry }) => entry.id),
    ['match', 'sure', 'new', 'old'],
  )
})

const PAYERS = [1, 2, 3, 4, 5].map((at) => `018f2f6e-7c1a-7b3a-9c55-00000000010${at}`)

t.test('a burst of payers is a trend; ghost and private entries are hidden', async (t) => {
  const { sql, clock, hive, write, read } = await shared(t)
  for (const owner of [...PAYERS, TEST_READER_AGENT_ID])
    await sql`
      insert into ledger (id, call_id, owner, kind, source, amount_micros, fee_micros, promo_micros, at)
      values (gen_random_uuid(), gen_random_uuid(), ${owner}, 'price', 'free', 5, 1,
              ${owner === TEST_READER_AGENT_ID ? 5 : 0}, ${new Date(clock.now())})`
  clock.pass(-3 * DAY)
  await write('Quiet week in the nft markets of every larger chain', { namespace: 'nft' })
  clock.pass(3 * DAY)
  const now = clock.now()
  const burst = await write('Perpetual funding flipped negative on every venue today', {
    namespace: 'trading',
  })
  await write('My own notes on trading that nobody should ever see', {
    namespace: 'hidden',
    is_public: false,
  })
  for (const agentId of PAYERS) await read({ query: 'funding' }, { agentId })
  for (let n = 0; n < 9; n += 1) await read({ query: 'quiet' }, { agentId: null, visitor: `v${n}` })
  await read({ query: 'funding' }, { agentId: null, visitor: 'ghost' }, 'stealth')
  const call = (tool: string, owner: string, at: number, ghost = false) => sql`
    insert into calls (owner, call_id, operation, tool, rail, cost_micros, status, ms, ghost, at)
    values (${owner}, ${newUuidV7(at)}, 'refuel', ${tool}, 'free', 0, 'ok', 1, ${ghost}, ${new Date(at)})`
  const [first = '', second = ''] = PAYERS
  for (const owner of [first, first, second, 'eip155:8453:0x1']) await call('hive_read', owner, now)
  await call('price_feed', first, now - 2 * DAY)
  await call('x402_parse', first, now, true)
  for (let n = 0; n < 9; n += 1) {
    await call('web_search', TEST_READER_AGENT_ID, now - n)
    await call('web_search', `visitor-${n}`, now - n)
  }

  const { context: given } = createRecordingToolContext({ clock, hive })
  const output = await hiveTrending.run({}, given)
  t.match(output, { window_hours: 24, generated_at: '2026-11-21T10:00:00.000Z' })
  t.strictSame(output.domains[0], {
    ...{ namespace: 'trading', reads: 5, writes: 1 },
    ...{ payers: 5, z_score: 5 },
  })
  t.match(
    output.domains.find((domain) => domain.namespace === 'nft'),
    { reads: 9, writes: 0, payers: 0, z_score: 0 },
  )
  t.notOk(output.domains.some((domain) => domain.namespace === 'hidden'))
  t.ok(
    output.domains.some((domain) => domain.namespace === 'virtuals'),
    'silent domains are listed',
  )
  t.strictSame(output.tools, [
    { slug: 'hive_read', calls: 4, payers: 3, z_score: 3 },
    { slug: 'price_feed', calls: 0, payers: 0, z_score: -0.14 },
  ])

  await sql`delete from hive_entries where id = ${burst.id}`
  t.strictSame(
    (await hiveTrending.run({}, given)).domains[0]?.namespace,
    'trading',
    'kept for a minute',
  )
  clock.pass(MINUTE)
  t.match(await hiveTrending.run({ limit: 1 }, given), {
    domains: { length: 1 },
    tools: { length: 1 },
  })
  t.not((await hiveTrending.run({}, given)).domains[0]?.namespace, 'trading')
})

t.test('a steady number of payers is no trend, and a crowd without payers is none', async (t) => {
  const steady = Array.from({ length: 8 }, (_, daysAgo) => ({ name: 'base', daysAgo, count: 100 }))
  const burst = [{ name: 'defi', daysAgo: 0, count: 10 }]
  const crowd = [{ name: 'crowd', daysAgo: 0, count: 1_000 }]
  const { domains, tools } = computeHiveTrends(
    {
      reads: crowd,
      writes: crowd,
      calls: crowd,
      toolPayers: [],
      hivePayers: [...steady, ...burst],
    },
    0,
  )
  t.match(
    domains.find(({ namespace }) => namespace === 'base'),
    { payers: 100, zScore: 0 },
  )
  t.equal(domains[0]?.namespace, 'defi')
  t.notOk(domains.some(({ namespace }) => namespace === 'crowd'))
  t.strictSame(tools, [])
})
