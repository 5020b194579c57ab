import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { waitUntilTrue } from '../schedules/make-schedule-slots-due.ts'

/** Pauses a statement of PostgreSQL while it runs, to order a race. */

/** Any two constants. */
const [FIRST, GATE] = [7_001, 7_002]

/**
 * Pauses the next statement that reads a table, as a busy machine does: its snapshot is taken, its locks
 * and writes are not. Other statements continue. `begin` starts the paused one; only later statements
 * see what happens meanwhile.
 */
export async function pauseNextSqlStatementOnTable<T>(
  sql: Sql,
  table: string,
  begin: () => Promise<T>,
  meanwhile: () => Promise<unknown>,
): Promise<T> {
  await sql.unsafe(`
    create function stopped() returns boolean language plpgsql as $$
    begin
      if pg_try_advisory_xact_lock(${FIRST}) then perform pg_advisory_xact_lock_shared(${GATE}); end if;
      return true;
    end $$;
    alter table ${table} rename to ${table}_kept;
    create view ${table} as select * from ${table}_kept where stopped()`)
  const begun = await sql.begin(async (gate) => {
    await gate`select pg_advisory_xact_lock(${GATE})`
    const answer = begin()
    await waitUntilTrue('a statement is stopped', async () => {
      const rows = await gate`
        select from pg_locks where locktype = 'advisory' and objid = ${GATE} and not granted
           and database = (select oid from pg_database where datname = current_database())`
      return rows.length > 0
    })
    await meanwhile()
    return { answer }
  })
  return begun.answer
}
