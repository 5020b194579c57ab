import { join } from 'node:path'
import {
  createJournalSegmentReader,
  archivedJournalSegmentColumnsSql,
  type ArchivedJournalRow,
  type ArchivedJournalSegment,
} from '../journal-archive/archived-journal-reader.ts'
import { hashJournalArchive } from '../journal-archive/journal-archive-file.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Reads archived months for `gas verify`: whether the files are whole, and their rows by aggregate. */

export const JOURNAL_ARCHIVE_FILES_INVARIANT = {
  id: 'I10c',
  description: 'each archived month of the journal is in its file, unchanged',
}

/** Compares each file with its checksum. Without a directory every file is missing. */
export async function findJournalArchiveViolations(sql: Sql, dir: string | null) {
  const archives = await sql<{ month: string; file: string; sha256: string; bytes: number }[]>`
    select month::text, file, sha256, bytes::float8 as bytes from journal_archives order by month`
  const broken: Record<string, unknown>[] = []
  for (const { month, file, sha256, bytes } of archives) {
    if (dir === null) {
      broken.push({ month, file, why: 'no directory of archives is given' })
      continue
    }
    const path = join(dir, file)
    const found = await hashJournalArchive(path).catch((error: Error) => error)
    if (found instanceof Error) broken.push({ month, file: path, why: found.message })
    else if (found.sha256 !== sha256 || found.bytes !== bytes)
      broken.push({ month, file: path, why: 'its content has changed', bytes, found: found.bytes })
  }
  return { checked: archives.length, broken }
}

/** The archived rows of an aggregate, the earliest first; null if a file cannot be read. */
export interface ArchivedAggregateRows {
  readonly aggregateId: string
  readonly rows: readonly ArchivedJournalRow[] | null
}

const SEGMENT_PAGE = 500

/** Yields the archived rows of these aggregates, a segment at a time. */
export async function* readArchivedJournalRowsOfAggregates(
  sql: Sql,
  dir: string | null,
  ids: readonly string[],
): AsyncGenerator<ArchivedAggregateRows> {
  const list = toTextArrayLiteral(ids)
  yield* readSegments(
    dir,
    ({ aggregateId, first }) => sql<ArchivedJournalSegment[]>`
    select ${archivedJournalSegmentColumnsSql(sql)} from archived_journal
     where aggregate_id = any(${list}::text[])
       and (aggregate_id, first_version) > (${aggregateId}, ${first}::bigint)
     order by aggregate_id, first_version limit ${SEGMENT_PAGE}`,
  )
}

/** Yields the rows of aggregates that have nothing but archived rows. */
export async function* readRowsOfFullyArchivedAggregates(
  sql: Sql,
  dir: string | null,
): AsyncGenerator<ArchivedAggregateRows> {
  yield* readSegments(
    dir,
    ({ aggregateId, first }) => sql<ArchivedJournalSegment[]>`
    select ${archivedJournalSegmentColumnsSql(sql)} from archived_journal s
     where (aggregate_id, first_version) > (${aggregateId}, ${first}::bigint)
       and not exists (select from journal j where j.aggregate_id = s.aggregate_id)
     order by aggregate_id, first_version limit ${SEGMENT_PAGE}`,
  )
}

type SegmentPosition = Pick<ArchivedJournalSegment, 'aggregateId' | 'first'>

async function* readSegments(
  dir: string | null,
  after: (position: SegmentPosition) => Promise<ArchivedJournalSegment[]>,
): AsyncGenerator<ArchivedAggregateRows> {
  const readSegment = dir === null ? null : createJournalSegmentReader(dir)
  let position: SegmentPosition = { aggregateId: '', first: 0 }
  for (;;) {
    const page = await after(position)
    for (const segment of page) {
      const rows = (await readSegment?.(segment).catch(() => null)) ?? null
      yield { aggregateId: segment.aggregateId, rows }
    }
    const end = page.at(-1)
    if (end === undefined || page.length < SEGMENT_PAGE) return
    position = end
  }
}
