import type { Sql } from './start-postgres-and-redis.ts'

/** An append-only table with an identity column `id`, and the columns to read. */
export interface AppendOnlyTable {
  readonly table: string
  /** Besides `id`. */
  readonly columns: readonly string[]
}

export interface TableTail<R> {
  /** Rows that have settled since the last read, in id order, each once. */
  read(): Promise<R[]>
  /** Every row up to here has been returned, or will never exist. */
  mark(): bigint
  /** Ids above the mark that were seen and wait for a gap below them to close. */
  waiting(): bigint
}

/** A read of this many rows may have left some. */
export const TAIL_PAGE_ROWS = 500
/** Upper bound of concurrent transactions. */
const MAX_OPEN_TRANSACTIONS = 1_000

/** Everything up to `through` is final once all transactions before `next` have ended. */
interface SettleMark {
  readonly through: bigint
  readonly next: bigint
}

/**
 * Reads what is appended to a table. Rows become visible in commit order, not in id order, and a
 * failed transaction leaves a permanent gap: a reader that only remembers the largest id would lose
 * rows. So this returns rows up to the first gap. Rows above it wait until every transaction that
 * could have drawn the missing ids has ended.
 *
 * Writers must own a transaction id before they draw a row's id (any write does; the commit locks
 * its aggregates first). `after` is the start, by default the current end of the table. Reads must
 * not overlap.
 */
export async function createTableTail<R extends { id: bigint }>(
  sql: Sql,
  { table, columns }: AppendOnlyTable,
  after?: bigint,
): Promise<TableTail<R>> {
  const start = after === undefined ? await readTableEnd(sql, table) : { mark: after, note: null }
  let { mark } = start
  let note: SettleMark | null = start.note

  async function read(): Promise<R[]> {
    const { rows, xmin } = await snapshot()
    const settled = note !== null && xmin >= note.next ? note.through : mark
    const ready: R[] = []
    let reached = mark
    for (const row of rows) {
      if (row.id > maxBigint(reached, settled) + 1n) break
      ready.push(row)
      reached = row.id
    }
    const more = rows.length === TAIL_PAGE_ROWS && ready.length === rows.length
    if (!more) reached = maxBigint(reached, settled)
    const last = rows.at(-1)?.id ?? reached
    const waits = note !== null && reached < note.through
    // Before the mark moves: if it fails, these rows are read again.
    if (!waits)
      note = last > reached ? { through: last, next: await readNextTransactionId(sql) } : null
    mark = reached
    return ready
  }

  /** One statement is one snapshot: rows and oldest open transaction are consistent. */
  async function snapshot() {
    const found = await sql<(R & { xmin: bigint })[]>`
      with now_at as materialized (select pg_current_snapshot() as s)
      select pg_snapshot_xmin(s)::text::bigint as xmin,
             r.* from now_at left join lateral (
               select ${sql(['id', ...columns])} from ${sql(table)}
                where id > ${mark} order by id limit ${TAIL_PAGE_ROWS}) r on true order by r.id`
    const [{ xmin } = { xmin: 0n }] = found
    return { xmin, rows: found.filter(({ id }) => id !== null) as unknown as R[] }
  }

  return {
    read,
    mark: () => mark,
    waiting: () => (note === null ? 0n : note.through - mark),
  }
}

/**
 * The end of a table: below the lowest missing id among its newest, which may still appear. Ids
 * that were drawn but are not visible count as missing.
 */
async function readTableEnd(
  sql: Sql,
  table: string,
): Promise<{ mark: bigint; note: SettleMark | null }> {
  const [sequence] = await sql<{ drawn: bigint | null; first: bigint }[]>`
    select pg_sequence_last_value(pg_get_serial_sequence(${table}, 'id')::regclass) as drawn,
           (select coalesce(max(first_id), 0) from cursor_epochs where stream = ${table}) as first`
  // Both after reading the sequence: a transaction that drew an id by then is here, or before
  // `next`.
  const next = await readNextTransactionId(sql)
  const [found] = await sql<{ ids: bigint[] }[]>`
    select array(select id from ${sql(table)} order by id desc limit ${MAX_OPEN_TRANSACTIONS}) as ids`
  const { ids } = found ?? { ids: [] }
  const through = sequence?.drawn ?? 0n
  const known = new Set(ids)
  let mark = maxBigint(through - BigInt(MAX_OPEN_TRANSACTIONS), sequence?.first ?? 0n)
  while (mark < through && known.has(mark + 1n)) mark += 1n
  return { mark, note: mark < through ? { through, next } : null }
}

/**
 * A transaction id later than all that have written so far. The end of a snapshot does not do: it
 * follows the newest ended transaction, and an open one may be later.
 */
async function readNextTransactionId(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ next: bigint }[]>`select pg_current_xact_id()::text::bigint as next`
  if (row === undefined) throw new Error('PostgreSQL names no transaction')
  return row.next
}

const maxBigint = (a: bigint, b: bigint): bigint => (a > b ? a : b)
