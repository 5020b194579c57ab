import t from 'tap'
import type {
  CallPriceWithoutAgentShares,
  CallPriceSource,
} from '../../core/aggregate-commit-row-types.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { asMicros } from '../../core/money.ts'
import { toCallPriceMovements } from '../../domain/call-price-ledger-movements.ts'
import { commitBatch } from '../../persistence/commit-batch.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import {
  SAMPLE_COMMITTED_AT_MS,
  sampleAggregateChanges,
} from '../support/actors/sample-aggregate-changes.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

const OWNER = newUuidV7(SAMPLE_COMMITTED_AT_MS)

const priceOf = (
  source: CallPriceSource,
  amount: bigint,
  fee: bigint,
  promo: bigint,
): CallPriceWithoutAgentShares => ({
  callId: newUuidV7(SAMPLE_COMMITTED_AT_MS),
  source,
  amount: asMicros(amount),
  fee: asMicros(fee),
  promo: asMicros(promo),
})
const book = (sql: Sql, version: number, prices: readonly CallPriceWithoutAgentShares[]) => {
  const rows = prices.map((price) => ({
    ...price,
    id: newUuidV7(SAMPLE_COMMITTED_AT_MS),
    at: SAMPLE_COMMITTED_AT_MS,
  }))
  return commitBatch(sql, [sampleAggregateChanges(OWNER, version, { prices: rows })], [])
}

t.test('the view shows the movements of every price, and each row adds up', async (t) => {
  const { sql } = await createTestDatabase(t)
  const prices = [
    ...[0n, 1n, 410n, 411n, 499n, 500n].flatMap((promo) =>
      [0n, 90n, 500n].flatMap((fee) => [
        priceOf('free', 500n, fee, promo),
        priceOf('held', 500n, fee, promo),
      ]),
    ),
    priceOf('free', 1n, 1n, 0n),
    priceOf('owed:base', 500n, 90n, 0n),
  ]
  t.equal((await book(sql, 0, prices)).bad.size, 0)
  t.equal((await sql`select from ledger`).length, prices.length, 'one row each')
  for (const price of prices) {
    const { callId } = price
    const shown = await sql`select debit, credit, amount_micros as amount, kind, call_id as "callId"
      from transfers where owner = ${OWNER} and call_id = ${callId} order by part`
    t.strictSame(
      shown.map((row) => ({ ...row })),
      toCallPriceMovements(OWNER, price),
    )
    const [row] = await sql<{ sum: bigint; ids: bigint }[]>`
      select sum(amount_micros)::bigint as sum, count(distinct id) as ids
        from transfers where call_id = ${callId}`
    t.strictSame([row?.sum, row?.ids], [price.amount, 1n])
  }
})

t.test('a price whose parts cannot be is refused with its batch', async (t) => {
  const { sql } = await createTestDatabase(t)
  for (const [source, amount, fee, promo] of [
    ['free', 0n, 0n, 0n],
    ['free', 500n, 501n, 0n],
    ['free', 500n, -1n, 0n],
    ['held', 500n, 90n, 501n],
    ['held', 500n, 90n, -1n],
    ['owed:base', 500n, 90n, 1n],
    ['owed:', 500n, 90n, 0n],
    ['cash', 500n, 90n, 0n],
  ] as const)
    await t.rejects(book(sql, 0, [priceOf(source as CallPriceSource, amount, fee, promo)]), {
      code: '23514',
    })
  for (const row of [
    sql`insert into ledger (id, owner, kind, source, amount_micros, fee_micros, promo_micros, at)
        values (gen_random_uuid(), 'a', 'price', 'free', 5, 1, 0, now())`,
    sql`insert into ledger (id, owner, kind, source, amount_micros, promo_micros, call_id, at)
        values (gen_random_uuid(), 'a', 'price', 'free', 5, 0, gen_random_uuid(), now())`,
    sql`insert into ledger (id, owner, kind, amount_micros, fee_micros, promo_micros, call_id, at)
        values (gen_random_uuid(), 'a', 'price', 5, 0, 0, gen_random_uuid(), now())`,
    sql`insert into ledger (id, owner, kind, debit, credit, amount_micros, fee_micros, at)
        values (gen_random_uuid(), 'a', 'send', 'x', 'y', 5, 1, now())`,
    sql`insert into ledger (id, owner, kind, debit, amount_micros, at)
        values (gen_random_uuid(), 'a', 'send', 'x', 5, now())`,
  ])
    await t.rejects(row, { code: '23514' })
  t.equal((await sql`select from ledger`).length, 0)
})
