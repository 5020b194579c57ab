/** An invariant of the database, as the query that finds its violations. */
export interface DatabaseInvariant {
  readonly id: string
  readonly description: string
  /** Counts the checked rows: one row with `n`. */
  readonly countSql: string
  /** Selects violations. */
  readonly violationsSql: string
}

/** An amount in a snapshot or a message (core/json/bigint.ts). */
export const snapshotAmountSql = (path: string) => `coalesce((${path}->>'$n')::bigint, 0)`

/** The balance of each account of the ledger. */
export const ACCOUNT_BALANCES_SQL = `select account, sum(amount)::bigint as balance from (
    select debit as account, -amount_micros as amount from transfers
    union all select credit, amount_micros from transfers) moves group by account`
