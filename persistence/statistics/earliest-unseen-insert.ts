import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'

/** A row commits at most this long after its time stamp, where nothing says more. */
export const MAX_COMMIT_DELAY = '10 minutes'

/**
 * Returns a time as text of PostgreSQL. A transaction that a later statement of `tx` does not see inserts all its
 * rows at or after it. `tx` is READ COMMITTED, so that later statements have later snapshots, and has not read
 * `pg_stat_activity` before: PostgreSQL keeps the first reading until the transaction ends.
 *
 * The time is the start of this statement, or the earliest start of a transaction that has an id while the
 * statement reads. Let T be a transaction that a later statement does not see.
 * - T has an id when it is read: its start is among those. T inserts nothing before it.
 * - T has no id when it is read: it gets one later. With an earlier one it would have ended, and be seen. A row
 *   needs the id first, so T inserts after this statement has begun, however long ago T has begun.
 *
 * So a long read does not hold the time back. A long write does: the next search reads more and misses nothing.
 *
 * The start is null if the transaction is of a role that this one may not watch, if `track_activities` is off, or
 * if the transaction has begun during the reading. Then `MAX_COMMIT_DELAY` counts. Processes without a role, such
 * as autovacuum, insert no rows. Prepared transactions are not used, nor savepoints around inserts into summed tables:
 * their rows have ids that a snapshot does not list while the transaction is open.
 */
export async function readEarliestUnseenInsert(tx: DatabaseTransaction): Promise<string> {
  const [row] = await tx<{ time: string }[]>`
    select least(statement_timestamp(), min(coalesce(
             xact_start, statement_timestamp() - ${MAX_COMMIT_DELAY}::interval)))::text as time
      from pg_stat_activity
     where backend_xid is not null and usesysid is not null
       and datname = current_database() and pid <> pg_backend_pid()`
  if (row === undefined) throw new Error('an aggregate has one row')
  return row.time
}
