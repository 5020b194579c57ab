import type { Sql } from './data-plane.ts'

/** A table that only grows, by an identity column `id`, and what is read of its rows. */
export interface AppendOnlyTable {
  readonly table: string
  /** Beside `id`. */
  readonly columns: readonly string[]
}

export interface TableTail<R> {
  /** The rows that have become settled since the last reading, in id order, each once. */
  read(): Promise<R[]>
  /** Every row up to here has been returned, or never will exist. */
  mark(): bigint
  /** Ids above the mark that were seen and wait for a hole below them to close. */
  waiting(): bigint
}

/** A reading that brings so many may have left some. */
export const TAIL_PAGE_ROWS = 500
/** More transactions than that are never open at once. */
const MAX_OPEN_TRANSACTIONS = 1_000

/** Everything up to `through` is final once all transactions before `next` have ended. */
interface SettleMark {
  readonly through: bigint
  readonly next: bigint
}

/**
 * Reads what is appended to a table. Ids become visible in the order of commits, not of ids, and a
 * transaction that fails leaves a hole for ever; whoever keeps only the largest id he has seen loses
 * rows. So rows are returned up to the first hole. What lies above it waits until every transaction
 * that could have drawn the missing ids has ended: then they have come, or they never will.
 *
 * Whoever inserts must own a transaction id before it draws a row's id (any write does; the commit
 * locks its aggregates first). `after` is where to begin, by default the end of the table as it is.
 * One reading at a time.
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
    // Before the mark moves: where it fails, these rows are read again.
    if (!waits)
      note = last > reached ? { through: last, next: await readNextTransactionId(sql) } : null
    mark = reached
    return ready
  }

  /** One statement is one snapshot: the rows and the oldest transaction under way belong together. */
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
 * The end of a table: below the lowest id that is missing among its newest, since that one may still
 * come. Ids that were drawn and are not visible count as missing.
 */
async function readTableEnd(
  sql: Sql,
  table: string,
): Promise<{ mark: bigint; note: SettleMark | null }> {
  const [sequence] = await sql<{ drawn: bigint | null }[]>`
    select pg_sequence_last_value(pg_get_serial_sequence(${table}, 'id')::regclass) as drawn`
  // Both later than the look at the sequence: whoever drew an id by then is here, or before `next`.
  const next = await readNextTransactionId(sql)
  const [found] = await sql<{ ids: bigint[] }[]>`
    select array(select id from ${sql(table)} order by id desc limit ${MAX_OPEN_TRANSACTIONS}) as ids`
  const { ids } = found ?? { ids: [] }
  const through = sequence?.drawn ?? 0n
  const known = new Set(ids)
  let mark = maxBigint(through - BigInt(MAX_OPEN_TRANSACTIONS), 0n)
  while (mark < through && known.has(mark + 1n)) mark += 1n
  return { mark, note: mark < through ? { through, next } : null }
}

/**
 * A transaction that is later than all that have written anything by now. The end of a snapshot is
 * not: that lies behind the newest that has ended, and one that is under way may be later.
 */
async function readNextTransactionId(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ next: bigint }[]>`select pg_current_xact_id()::text::bigint as next`
  if (row === undefined) throw new Error('PostgreSQL names no transaction')
  return row.next
}

const maxBigint = (a: bigint, b: bigint): bigint => (a > b ? a : b)
