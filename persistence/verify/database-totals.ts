import { ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { ACCOUNT_BALANCES_SQL } from './database-invariant.ts'

/** What a database holds: who reads a verdict on it sees which database was judged. */
export interface DatabaseTotals {
  readonly agents: number
  /** With the writes that carry an Idempotency-Key. */
  readonly calls: number
  readonly transfers: number
  /** Promotional credits, cash and holds of all agents together. */
  readonly balances: Micros
}

export async function readDatabaseTotals(sql: Sql): Promise<DatabaseTotals> {
  const [row] = await sql<DatabaseTotals[]>`
    select (select count(*) from actors where kind = 'agent')::float8 as agents,
      (select count(*) from calls)::float8 as calls,
      (select count(*) from transfers)::float8 as transfers,
      (select coalesce(sum(balance), 0)::bigint from (${sql.unsafe(ACCOUNT_BALANCES_SQL)}) b
        where account like 'agent:%') as balances`
  return row ?? { agents: 0, calls: 0, transfers: 0, balances: ZERO_MICROS }
}
