import {
  assertLedgerMovementPermitted,
  LEDGER_MOVEMENT_RULES,
} from '../../../domain/ledger-movements.ts'
import type { LedgerTransfer } from '../../../core/aggregate-commit-row-types.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'

/** Compares the movements of a database with the table of docs/credits.md. */

export interface LedgerMovementsInDatabase {
  /** What the table does not have, by its own words. */
  readonly unknown: readonly string[]
  /** Kinds of the table that the database does not have. */
  readonly missing: readonly string[]
}

export async function compareLedgerMovements(sql: Sql): Promise<LedgerMovementsInDatabase> {
  const rows = await sql<LedgerTransfer[]>`
    select kind, debit, credit, min(amount_micros) as amount from transfers group by 1, 2, 3`
  const unknown = rows.flatMap((row) => {
    try {
      assertLedgerMovementPermitted({ ...row, promoAllowed: true })
      return []
    } catch (error) {
      return [(error as Error).message]
    }
  })
  const seen = new Set<string>(rows.map(({ kind }) => kind))
  const missing = Object.keys(LEDGER_MOVEMENT_RULES).filter((kind) => !seen.has(kind))
  return { unknown, missing }
}
