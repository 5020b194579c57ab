import t, { type Test } from 'tap'
import { createDatabaseAdjustedClock, DAY, HOUR, MINUTE } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { ensureAttestationKey } from '../../persistence/attestations/attestation-key-store.ts'
import { appendFeesToAttestationTree } from '../../persistence/attestations/attestation-tree-writer.ts'
import { createAttestationTreeReader } from '../../persistence/attestations/attestation-tree-reader.ts'
import { createRetentionSweeper } from '../../persistence/retention-sweeper.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { verifyDatabaseInvariants } from '../../persistence/verify/verify-database-invariants.ts'
import { TEST_STATION_SEALING_KEYS } from '../support/ledger/rewrite-attestations.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

/** Fees wait in a queue until they are appended; which heads are kept. */

const now = createDatabaseAdjustedClock().now()

async function createTree(t: Test) {
  const { sql } = await createTestDatabase(t)
  await ensureAttestationKey(sql, TEST_STATION_SEALING_KEYS)
  const append = () =>
    appendFeesToAttestationTree({
      sql,
      sealing: TEST_STATION_SEALING_KEYS,
      origin: 'x/attestations',
    })
  const addFees = (count: number, ago: number, tx: Sql = sql) => {
    const ids = Array.from({ length: count }, () => newUuidV7(now))
    return tx`
      insert into ledger (id, owner, kind, source, amount_micros, fee_micros, promo_micros, call_id, at)
      select id, 'x', 'price', 'free', 1000, 180, 0, id, ${new Date(now - ago)}
        from unnest(${`{${ids.join()}}`}::uuid[]) id`
  }
  const brokenRules = async () =>
    (await verifyDatabaseInvariants(sql)).filter(
      ({ rule, broken }) => rule.startsWith('A') && broken.length > 0,
    )
  return { sql, append, addFees, brokenRules }
}

t.test('each fee is appended once, however late its transaction commits', async (t) => {
  const { sql, append, addFees, brokenRules } = await createTree(t)
  await addFees(1, 0)
  t.match(await append(), { size: 1, more: false })
  t.equal(await append(), null, 'each fee once')
  await addFees(1, 5 * MINUTE)
  t.match(await append(), { size: 2 }, 'a fee with an old time')
  const slow = await sql.reserve()
  await slow`begin`
  await addFees(1, 0, slow)
  await addFees(1, 0)
  t.match(await append(), { size: 3 }, 'one of an open transaction waits')
  await addFees(1, 0)
  t.match(await append(), { size: 4 })
  await slow`commit`
  slow.release()
  t.match(await append(), { size: 5 }, 'and is appended after its commit')
  t.equal(await append(), null)
  t.strictSame(await brokenRules(), [])
})

t.test('many fees are appended in parts, in packs of one minute', async (t) => {
  const { sql, append, addFees, brokenRules } = await createTree(t)
  for (const ago of [0, 3 * MINUTE]) await addFees(2_600, ago)
  t.match(await append(), { more: true })
  t.match(await append(), { size: 5_200, more: false })
  const [packs] = await sql`
    select max(cardinality(ledger_ids)) as largest, count(distinct minute)::int as minutes from attestation_leaf_packs`
  t.strictSame(packs, { largest: 32, minutes: 2 })
  const tree = createAttestationTreeReader(sql)
  const page = await tree.leaves(200, '5000')
  t.strictSame(
    page.map(({ index }) => index),
    Array.from({ length: 200 }, (_, at) => 4_999 - at),
  )
  t.strictSame(await tree.leaf(4_810), page.at(4_999 - 4_810))
  t.equal((await tree.leaves(200, '7')).length, 7)
  t.strictSame(await brokenRules(), [])
})

t.test('a receipt has the fees that were booked long after their call', async (t) => {
  const { sql, append } = await createTree(t)
  const [admitted, callId] = [now - 30 * HOUR, newUuidV7(now - 30 * HOUR)]
  const add = (kind: string, at: number) =>
    sql`insert into ledger (id, owner, debit, credit, kind, amount_micros, call_id, at)
        values (${newUuidV7(at)}, 'x', 'treasury:fees', 'owed:base', ${kind}, 7, ${callId}, ${new Date(at)})`
  await add('loss', admitted)
  await add('loss', now)
  const tree = createAttestationTreeReader(sql)
  const read = () => tree.feesOfCall(callId, new Date(admitted))
  t.match(await read(), { openings: [], isPending: true })
  await append()
  const { openings, isPending } = await read()
  t.strictSame([openings.map(({ index }) => index), isPending], [[0, 1], false])
  await add('loss', now)
  t.match(await read(), { openings: { length: 2 }, isPending: true })
})

t.test('after a restore into another cluster the whole queue is read', async (t) => {
  const { sql, append, addFees, brokenRules } = await createTree(t)
  await addFees(1, 0)
  await append()
  await addFees(1, 0)
  await sql`update attestation_cursor set oldest = '9000000000'`
  t.equal(await append(), null, 'the position is that of other transaction ids')
  await sql`update attestation_cursor set cluster = 'another'`
  t.match(await append(), { size: 2 })
  t.strictSame(await brokenRules(), [])
})

t.test('of the heads of a past day the last one is kept', async (t) => {
  const { sql } = await createTestDatabase(t)
  const noon = Math.floor(now / DAY) * DAY + DAY / 2
  const addHead = (size: number, at: number) => sql`
    insert into attestation_heads (tree_size, root, signed_at, note)
    values (${size}, sha256('x'), ${new Date(at)}, 'note')`
  for (const [size, ago] of [
    [1, 12 * DAY],
    [2, 12 * DAY - HOUR],
    [3, 11 * DAY],
    [4, 2 * HOUR],
    [5, HOUR],
  ] as const)
    await addHead(size, (ago < DAY ? now : noon) - ago)
  await createRetentionSweeper(sql).sweep()
  const kept = await sql<{ size: bigint }[]>`
    select tree_size as size from attestation_heads order by tree_size`
  t.strictSame(
    kept.map(({ size }) => Number(size)),
    [2, 3, 4, 5],
  )
  for (const size of [3, 4])
    await t.rejects(sql`delete from attestation_heads where tree_size = ${size}`, /are kept/)
  await t.rejects(sql`update attestation_heads set note = 'other'`, /append-only/)
})
