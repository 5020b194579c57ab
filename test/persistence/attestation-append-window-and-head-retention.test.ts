import t from 'tap'
import { createDatabaseAdjustedClock, DAY, HOUR, MINUTE } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { ensureAttestationKey } from '../../persistence/attestations/attestation-key-store.ts'
import { appendFeesToAttestationTree } from '../../persistence/attestations/attestation-tree-writer.ts'
import { createRetentionSweeper } from '../../persistence/retention-sweeper.ts'
import { TEST_STATION_SEALING_KEYS } from '../support/ledger/rewrite-attestations.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

/** How far back an append looks for fees, and which heads are kept. */

const now = createDatabaseAdjustedClock().now()

t.test(
  'an append reads the last seconds, and once a minute all that may have come late',
  async (t) => {
    const { sql } = await createTestDatabase(t)
    await ensureAttestationKey(sql, TEST_STATION_SEALING_KEYS)
    const append = async () =>
      (
        await appendFeesToAttestationTree({
          sql,
          sealing: TEST_STATION_SEALING_KEYS,
          origin: 'x/attestations',
        })
      )?.size ?? null
    const addFee = (ago: number) => sql`
    insert into ledger (id, owner, kind, source, amount_micros, fee_micros, promo_micros, call_id, at)
    values (${newUuidV7(now)}, 'x', 'price', 'free', 1000, 180, 0, ${newUuidV7(now)}, ${new Date(now - ago)})`
    await addFee(0)
    t.equal(await append(), 1)
    t.equal(await append(), null, 'each fee once')
    await addFee(5 * MINUTE)
    await addFee(0)
    t.equal(await append(), 2, 'the late one waits')
    await sql`update attestation_cursor set searched_at = now() - interval '2 minutes'`
    t.equal(await append(), 3, 'and is found by the next search')
    await addFee(0)
    t.equal(await append(), 4)
    await sql`update attestation_cursor set searched_at = now() - interval '2 minutes'`
    t.equal(await append(), null)
    const [cursor] = await sql`
    select searched_size, searched_at > now() - interval '1 minute' as ended from attestation_cursor`
    t.match(cursor, { searched_size: 4n, ended: true }, 'a search without a find ends as well')
  },
)

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
