import { setTimeout as pause } from 'node:timers/promises'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import {
  exportJournalMonth,
  type ExportedJournalMonth,
  type JournalMonth,
} from './export-journal-month.ts'

/**
 * Moves old months of the journal to files. A month leaves the database in the transaction that names its
 * file, after the file and its name are on the disk: a crash before leaves a file that nothing reads, and
 * the month where it was.
 */

export interface ArchivedJournalMonth {
  readonly month: string
  readonly rows: number
  /** Null for a month without rows to archive. */
  readonly file: string | null
  readonly bytes: number
}

export interface ArchiveJournalOptions {
  readonly dir: string
  /** The first month that stays, as `2026-03`. */
  readonly before: string
  readonly onArchived?: (month: ArchivedJournalMonth) => void
}

/** The locks of a detach are asked for so often, and held up by others for so long. */
const [DETACH_TRIES, DETACH_PAUSE_MS] = [20, 1_000]
const LOCK_TIMEOUT = '500ms'
const LOCK_NOT_AVAILABLE = '55P03'
const DEADLOCK_DETECTED = '40P01'

/** The current month and the one before it stay: nodes write to them, and partitions of them are made. */
export async function readFirstUnarchivedJournalMonth(sql: Sql): Promise<string> {
  const [row] = await sql<{ month: string }[]>`
    select to_char(date_trunc('month', now() at time zone 'UTC') - interval '1 month', 'YYYY-MM') as month`
  return row?.month ?? ''
}

/** Archives all months before one, the oldest first. One process does it at a time. */
export function archiveJournalMonths(
  sql: Sql,
  { dir, before, onArchived = () => {} }: ArchiveJournalOptions,
): Promise<ArchivedJournalMonth[]> {
  // This transaction writes nothing and reads one snapshot, so it holds up nobody.
  return sql.begin(async (guard) => {
    await guard`set local idle_in_transaction_session_timeout = 0`
    const [lock] = await guard<{ taken: boolean }[]>`
      select pg_try_advisory_xact_lock(hashtext('archive_journal')) as taken`
    if (lock?.taken !== true) throw new Error('the journal is being archived by another process')
    await dropDetachedPartitions(sql)
    const archived: ArchivedJournalMonth[] = []
    for (const month of await listMonths(sql, before)) {
      const one = await archiveMonth(sql, dir, month)
      archived.push(one)
      onArchived(one)
    }
    return archived
  }) as Promise<ArchivedJournalMonth[]>
}

const listMonths = (sql: Sql, before: string) => sql<JournalMonth[]>`
  select to_char(start, 'YYYY-MM') as month, partition,
         (start + interval '1 month') at time zone 'UTC' as end
    from (select c.relname as partition, to_timestamp(right(c.relname, 7), 'YYYY_MM')::timestamp as start
            from pg_inherits i join pg_class c on c.oid = i.inhrelid
           where i.inhparent = 'journal'::regclass and c.relname ~ '^journal_\\d{4}_\\d{2}$') p
   where start < to_timestamp(${before}, 'YYYY-MM')::timestamp order by start`

async function archiveMonth(
  sql: Sql,
  dir: string,
  month: JournalMonth,
): Promise<ArchivedJournalMonth> {
  const exported = await exportJournalMonth(sql, dir, month)
  try {
    await detachWhenFree(sql, month, exported)
  } catch (error) {
    if (await isStillAttached(sql, month)) await exported.discard()
    throw error
  }
  const { written, rows } = exported
  // Not in that transaction: removing large files would hold up commits.
  if (written !== null) await sql`drop table ${sql(month.partition)}`
  return { month: month.month, rows, file: written?.file ?? null, bytes: written?.bytes ?? 0 }
}

/** Whether the transaction is known to have failed. A lost connection leaves that open. */
async function isStillAttached(sql: Sql, { month }: JournalMonth): Promise<boolean> {
  const known = await sql`select from journal_archives where month = ${`${month}-01`}`.catch(
    () => null,
  )
  return known?.length === 0
}

/** Commits wait while this waits for readers such as `gas verify`, so it gives up soon and tries again. */
async function detachWhenFree(
  sql: Sql,
  month: JournalMonth,
  exported: ExportedJournalMonth,
): Promise<void> {
  for (let left = DETACH_TRIES; ; left--) {
    try {
      return await detach(sql, month, exported)
    } catch (error) {
      const { code } = error as { code?: string }
      if (code !== LOCK_NOT_AVAILABLE && code !== DEADLOCK_DETECTED) throw error
      if (left === 1)
        throw new Error(
          'a long query reads the journal, such as that of gas verify: try again after it',
          { cause: error },
        )
      await pause(DETACH_PAUSE_MS)
    }
  }
}

async function detach(
  sql: Sql,
  { month, partition, end }: JournalMonth,
  { written, rows, kept }: ExportedJournalMonth,
): Promise<void> {
  await sql.begin(async (begun) => {
    const tx = begun as unknown as Sql
    await tx`set local statement_timeout = 0`
    await tx`select set_config('lock_timeout', ${LOCK_TIMEOUT}, true)`
    // Nothing is written to the month from here on; other months go on.
    await tx`lock table ${tx(partition)} in share row exclusive mode`
    await assertExported(tx, end, kept, rows)
    await tx`alter table journal detach partition ${tx(partition)}`
    await keepRows(tx, partition, kept)
    await tx`
      delete from journal_default j where j.at < ${end} and ${isExported(tx, kept)}`
    if (written === null) await tx`drop table ${tx(partition)}`
    else
      await tx`
        insert into journal_archives (month, file, sha256, bytes, rows)
        values (${`${month}-01`}, ${written.file}, ${written.sha256}, ${written.bytes}, ${rows})`
  })
}

/** Rows of agents and the like, but those that stay. */
const isExported = (sql: Sql, kept: ExportedJournalMonth['kept']) => sql`
  not exists (select from aggregates a where a.id = j.aggregate_id and a.kind = 'visitor')
  and not exists (select from ${keptRows(sql, kept)} where k.id = j.aggregate_id and j.version >= k.version)`

const keptRows = (sql: Sql, kept: ExportedJournalMonth['kept']) => sql`
  unnest(${toTextArrayLiteral(kept.map((one) => one.aggregateId))}::text[],
         ${toTextArrayLiteral(kept.map((one) => String(one.from)))}::bigint[]) k(id, version)`

async function assertExported(
  sql: Sql,
  end: Date,
  kept: ExportedJournalMonth['kept'],
  rows: number,
): Promise<void> {
  const [stored] = await sql<{ rows: number }[]>`
    select count(*)::float8 as rows from journal j where j.at < ${end} and ${isExported(sql, kept)}`
  if (stored?.rows !== rows)
    throw new Error('the journal of an old month changed while it was archived: try again')
}

/** Puts the rows that stay into the default partition, which has what no month has. */
async function keepRows(
  sql: Sql,
  partition: string,
  kept: ExportedJournalMonth['kept'],
): Promise<void> {
  await sql`
    insert into journal select j.* from aggregates a join ${sql(partition)} j on j.aggregate_id = a.id
     where a.kind = 'visitor'`
  if (kept.length > 0)
    await sql`
      insert into journal select j.* from ${keptRows(sql, kept)} join ${sql(partition)} j
          on j.aggregate_id = k.id and j.version >= k.version`
}

/** Drops the months that a run has detached and, interrupted, not dropped. */
async function dropDetachedPartitions(sql: Sql): Promise<void> {
  const detached = await sql<{ name: string }[]>`
    select c.relname as name from journal_archives a
      join pg_class c on c.relname = 'journal_' || to_char(a.month, 'YYYY_MM') and c.relkind = 'r'
       and c.relnamespace = 'public'::regnamespace and not c.relispartition`
  for (const { name } of detached) await sql`drop table ${sql(name)}`
}
