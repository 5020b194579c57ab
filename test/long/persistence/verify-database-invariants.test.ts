import t from 'tap'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { verifyDatabaseInvariants } from '../../../persistence/verify/verify-database-invariants.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { findInvariantViolations } from '../../support/actors/test-actor-node.ts'
import { createSampleLedger } from '../../support/ledger/sample-database-for-invariants.ts'
import type { LedgerCorruption } from '../../support/ledger/ledger-corruptions.ts'
import { INVARIANT_CORRUPTIONS } from '../../support/ledger/invariant-corruptions.ts'

t.test('a valid database breaks no rule and has rows for every rule', async (t) => {
  const { sql, archiveDir } = await createSampleLedger(t)
  t.strictSame(await findInvariantViolations(sql, archiveDir), {})
  for (const { rule, checked } of await verifyDatabaseInvariants(sql, archiveDir))
    t.ok(checked > 0, `${rule} looked at ${checked}`)
})

t.test('an empty database is valid', async (t) => {
  const { sql } = await createTestDatabase(t)
  t.strictSame(await findInvariantViolations(sql), {})
})

/**
 * What the invariants find in a database with this corruption. It is applied in a transaction that is
 * rolled back, so every corruption meets the same sound ledger.
 */
async function violationsWith(
  { sql, ...ids }: Awaited<ReturnType<typeof createSampleLedger>>,
  apply: LedgerCorruption['apply'],
): Promise<Record<string, unknown[]>> {
  let found: Record<string, unknown[]> = {}
  const rollback = new Error('roll back')
  const transaction = sql.begin(async (tx) => {
    // The invariants open a transaction of their own: here it is this one.
    const view: Sql = new Proxy(tx as unknown as Sql, {
      get: (target, key): unknown =>
        key === 'begin'
          ? (...args: unknown[]) => (args.at(-1) as (own: Sql) => unknown)(view)
          : Reflect.get(target, key),
    })
    await apply(view, { sql: view, ...ids })
    found = await findInvariantViolations(view, ids.archiveDir)
    throw rollback
  })
  await transaction.catch((error: unknown) => {
    if (error !== rollback) throw error
  })
  return found
}

t.test('each rule finds its corruptions', async (t) => {
  const ledger = await createSampleLedger(t)
  for (const { description, rule, apply } of INVARIANT_CORRUPTIONS) {
    await t.test(`${rule} finds ${description}`, async (t) => {
      const found = await violationsWith(ledger, apply)
      t.ok(rule in found, Object.keys(found).join())
    })
  }
  t.strictSame(
    await findInvariantViolations(ledger.sql, ledger.archiveDir),
    {},
    'the ledger itself stays sound',
  )
})

t.test('every rule has a corruption', async (t) => {
  const { sql } = await createTestDatabase(t)
  const rules = (await verifyDatabaseInvariants(sql)).map(({ rule }) => rule)
  t.strictSame([...new Set(INVARIANT_CORRUPTIONS.map(({ rule }) => rule))].sort(), rules.sort())
})
