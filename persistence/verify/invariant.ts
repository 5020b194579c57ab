/** One invariant of the database, as the query that would find its breach. */
export interface DatabaseInvariant {
  readonly id: string
  readonly description: string
  /** Counts what there is to check: one row with `n`. */
  readonly countSql: string
  /** Selects what breaks the rule. */
  readonly violationsSql: string
}

/** An amount of a snapshot or a message, as the codec writes it. */
export const snapshotAmountSql = (path: string) => `coalesce((${path}->>'$n')::bigint, 0)`

/** What each account of the ledger comes to. */
export const ACCOUNT_BALANCES_SQL = `select account, sum(amount)::bigint as balance from (
    select debit as account, -amount_micros as amount from transfers
    union all select credit, amount_micros from transfers) moves group by account`
