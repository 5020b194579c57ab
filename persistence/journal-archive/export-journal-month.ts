import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import {
  JOURNAL_ARCHIVE_BLOCK_CHARS,
  createJournalArchiveWriter,
  type JournalArchiveWriter,
  type WrittenJournalArchive,
} from './journal-archive-file.ts'

/**
 * Writes the rows of a month to a file, and the places of its segments to the database, where nothing
 * reads them until the month is detached. Rows of earlier months that are still stored go with it.
 */

/** A month of the journal as text, `2026-03`, and the instants between which its rows are. */
export interface JournalMonth {
  readonly month: string
  readonly partition: string
  readonly end: Date
}

export interface ExportedJournalMonth {
  /** Null if the month has no rows to archive. */
  readonly written: WrittenJournalArchive | null
  readonly rows: number
  /** Aggregates whose rows from a version on stay: a later month has an earlier version of them. */
  readonly kept: readonly JournalRowsKeptFromVersion[]
  /** Removes the file. */
  discard(): Promise<void>
}

export interface JournalRowsKeptFromVersion {
  readonly aggregateId: string
  readonly from: number
}

interface ExportedRow {
  readonly aggregateId: string
  readonly version: number
  readonly at: Date
  readonly line: string
  readonly setsBackpack: boolean
  readonly absorbed: readonly string[] | null
}

interface OpenSegment {
  readonly aggregateId: string
  readonly first: number
  last: number
  earliestAt: Date
  setsBackpack: boolean
  readonly absorbed: string[]
}

const PAGE_ROWS = 2_000

export async function exportJournalMonth(
  sql: Sql,
  dir: string,
  month: JournalMonth,
): Promise<ExportedJournalMonth> {
  await deleteLeftSegments(sql)
  const writer = await createJournalArchiveWriter(dir, month.month)
  try {
    const { rows, kept } = await exportRows(sql, writer, month)
    if (rows > 0) return { written: await writer.finish(), rows, kept, discard: writer.discard }
    await writer.discard()
    return { written: null, rows, kept, discard: writer.discard }
  } catch (error) {
    await writer.discard()
    throw error
  }
}

/** Deletes segments of an export that was interrupted before its month was detached. */
const deleteLeftSegments = (sql: Sql) => sql`
  delete from journal_archive_segments s
   where not exists (select from journal_archives a where a.month = s.month)`

async function exportRows(sql: Sql, writer: JournalArchiveWriter, month: JournalMonth) {
  const block = createBlock(sql, writer, month)
  const kept: JournalRowsKeptFromVersion[] = []
  let rows = 0
  let last = { aggregateId: '', version: 0 }
  /** The version that the current aggregate goes on with. */
  let next = 0
  for (;;) {
    const page = await readPage(sql, month, last)
    const bounds = await readBounds(sql, month, [...new Set(page.map((row) => row.aggregateId))])
    for (const row of page) {
      const { archived, live } = bounds.get(row.aggregateId) ?? { archived: 0, live: Infinity }
      if (row.aggregateId !== last.aggregateId) next = archived + 1
      last = row
      if (row.version > live) {
        if (kept.at(-1)?.aggregateId !== row.aggregateId)
          kept.push({ aggregateId: row.aggregateId, from: row.version })
        continue
      }
      if (row.version !== next)
        throw new Error(
          `the journal of ${row.aggregateId} has no version ${next} before ${row.version}; gas verify shows more`,
        )
      next += 1
      rows += 1
      await block.add(row)
    }
    if (page.length < PAGE_ROWS) break
  }
  await block.flush()
  return { rows, kept }
}

/** Visitors are deleted with their journal some days after their last call, so theirs stays. */
const readPage = (
  sql: Sql,
  { end }: JournalMonth,
  last: { readonly aggregateId: string; readonly version: number },
) => sql<ExportedRow[]>`
  select j.aggregate_id as "aggregateId", j.version::float8 as version, j.at,
         json_build_object('aggregate_id', j.aggregate_id, 'version', j.version, 'command_id', j.command_id,
           'at', to_char(j.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'command', j.command, 'changed', j.changed)::text as line,
         j.command->>'name' = 'backpack.set' as "setsBackpack",
         case when j.command->>'name' = 'inbox.absorb' then j.command->'input'->'messages' end as absorbed
    from journal j
   where j.at < ${end} and (j.aggregate_id, j.version) > (${last.aggregateId}, ${last.version}::bigint)
     and not exists (select from aggregates a where a.id = j.aggregate_id and a.kind = 'visitor')
   order by j.aggregate_id, j.version limit ${PAGE_ROWS}`

interface VersionBounds {
  /** The last archived version. */
  readonly archived: number
  /** The first version of a later month. Clocks of nodes differ, so a month may end within a few commands. */
  readonly live: number
}

async function readBounds(
  sql: Sql,
  { end }: JournalMonth,
  ids: readonly string[],
): Promise<Map<string, VersionBounds>> {
  const rows = await sql<{ id: string; archived: number; live: number | null }[]>`
    select x.id, coalesce((select max(s.last_version) from archived_journal s where s.aggregate_id = x.id), 0)::float8 as archived,
           (select min(k.version) from journal k where k.aggregate_id = x.id and k.at >= ${end})::float8 as live
      from unnest(${toTextArrayLiteral(ids)}::text[]) x(id)`
  return new Map(rows.map(({ id, archived, live }) => [id, { archived, live: live ?? Infinity }]))
}

/** Collects rows, and writes them with their segments when they are enough for a block. */
function createBlock(sql: Sql, writer: JournalArchiveWriter, { month }: JournalMonth) {
  let lines: string[] = []
  let segments: OpenSegment[] = []
  let chars = 0
  async function flush(): Promise<void> {
    if (lines.length === 0) return
    const { offset, bytes } = await writer.writeBlock(lines)
    const rows = segments.map((one) => ({
      aggregate_id: one.aggregateId,
      first_version: one.first,
      last_version: one.last,
      earliest_at: one.earliestAt,
      month: `${month}-01`,
      block_offset: offset,
      block_bytes: bytes,
      sets_backpack: one.setsBackpack,
      absorbed: one.absorbed.length === 0 ? null : one.absorbed,
    }))
    await sql`
      insert into journal_archive_segments select r.*
        from jsonb_populate_recordset(null::journal_archive_segments, ${JSON.stringify(rows)}::text::jsonb) r`
    ;[lines, segments, chars] = [[], [], 0]
  }
  return {
    flush,
    async add(row: ExportedRow): Promise<void> {
      if (chars > 0 && chars + row.line.length > JOURNAL_ARCHIVE_BLOCK_CHARS) await flush()
      lines.push(row.line)
      chars += row.line.length
      extendSegments(segments, row)
    },
  }
}

function extendSegments(segments: OpenSegment[], row: ExportedRow): void {
  const { aggregateId, version, at, setsBackpack, absorbed } = row
  const open = segments.at(-1)
  if (open?.aggregateId !== aggregateId) {
    const own = { aggregateId, first: version, last: version, earliestAt: at, setsBackpack }
    segments.push({ ...own, absorbed: [...(absorbed ?? [])] })
    return
  }
  open.last = version
  if (at < open.earliestAt) open.earliestAt = at
  open.setsBackpack ||= setsBackpack
  open.absorbed.push(...(absorbed ?? []))
}
