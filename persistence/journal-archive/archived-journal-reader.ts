import { join } from 'node:path'
import { ServiceError } from '../../core/errors.ts'
import type { JournalChange } from '../../core/journal-actor-state-delta.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { readJournalBlock } from './journal-archive-file.ts'

/** Reads journal rows that were moved to files. They are the first versions of their aggregates. */

/** A row of the journal as a line of a file. */
export interface ArchivedJournalRow {
  readonly aggregate_id: string
  readonly version: number
  readonly command_id: string
  readonly at: string
  readonly command: { readonly name: string; readonly input?: unknown }
  readonly changed: readonly JournalChange[]
}

/** Consecutive rows of one aggregate in one block. */
export interface ArchivedJournalSegment {
  readonly aggregateId: string
  readonly first: number
  readonly last: number
  readonly file: string
  readonly offset: number
  readonly bytes: number
}

/** Versions from `from` to before `before`. */
export interface ArchivedVersionRange {
  readonly from: number
  readonly before: number
}

export interface ArchivedJournalReader {
  /** Rows of an aggregate in a range, the latest or the earliest first. A missing file is an error. */
  rows(
    aggregateId: string,
    range: ArchivedVersionRange,
    order: 'latest first' | 'earliest first',
  ): AsyncGenerator<ArchivedJournalRow>
  /** The latest version at an instant; null before the first. */
  versionAt(aggregateId: string, at: Date): Promise<number | null>
}

/** Segments read from the database at once. */
const SEGMENT_PAGE = 50

/** Creates the reader of the files in a directory. */
export function createArchivedJournalReader(sql: Sql, dir: string): ArchivedJournalReader {
  return {
    async *rows(aggregateId, { from, before }, order) {
      const isDescending = order === 'latest first'
      const readSegment = createJournalSegmentReader(dir)
      let [low, high] = [from, before]
      for (;;) {
        const segments = await sql<ArchivedJournalSegment[]>`
          select ${archivedJournalSegmentColumnsSql(sql)} from archived_journal
           where aggregate_id = ${aggregateId} and last_version >= ${low} and first_version < ${high}
           order by first_version ${isDescending ? sql`desc` : sql`asc`} limit ${SEGMENT_PAGE}`
        for (const segment of segments) {
          const rows = await readSegment(segment)
          const inRange = rows.filter(({ version }) => version >= from && version < before)
          yield* isDescending ? inRange.toReversed() : inRange
        }
        const end = segments.at(-1)
        if (end === undefined || segments.length < SEGMENT_PAGE) return
        if (isDescending) high = end.first
        else low = end.last + 1
      }
    },

    async versionAt(aggregateId, at) {
      const [segment] = await sql<ArchivedJournalSegment[]>`
        select ${archivedJournalSegmentColumnsSql(sql)} from archived_journal
         where aggregate_id = ${aggregateId} and earliest_at <= ${at}
         order by first_version desc limit 1`
      if (segment === undefined) return null
      const rows = await createJournalSegmentReader(dir)(segment)
      return rows.findLast((row) => new Date(row.at) <= at)?.version ?? null
    },
  }
}

export const archivedJournalSegmentColumnsSql = (sql: Sql) =>
  sql`aggregate_id as "aggregateId", first_version::float8 as first, last_version::float8 as last,
      file, block_offset::float8 as "offset", block_bytes as bytes`

export type JournalSegmentReader = (
  segment: ArchivedJournalSegment,
) => Promise<readonly ArchivedJournalRow[]>

/** Reads segments; neighbours in the same block are read from the disk once. */
export function createJournalSegmentReader(dir: string): JournalSegmentReader {
  let last: { readonly key: string; readonly lines: Promise<string[]> } | null = null
  return async (segment) => {
    const { aggregateId, first, last: lastVersion, file, offset } = segment
    const key = `${file} ${offset}`
    if (last?.key !== key) last = { key, lines: readJournalBlock(join(dir, file), segment) }
    const lines = await last.lines.catch((error: unknown) => {
      last = null
      throw toReadError(error, file)
    })
    const named = JSON.stringify(aggregateId)
    const rows = lines
      .filter((line) => line.includes(named))
      .map((line) => JSON.parse(line) as ArchivedJournalRow)
      .filter((row) => row.aggregate_id === aggregateId)
    const isWhole =
      rows.length === lastVersion - first + 1 &&
      rows.every(({ version }, at) => version === first + at)
    if (!isWhole) throw toReadError(new Error('rows are missing'), file)
    return rows
  }
}

function toReadError(cause: unknown, file: string): ServiceError {
  const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT'
  const detail = isMissing
    ? `The file ${file} of the archived journal is missing.`
    : `The file ${file} of the archived journal cannot be read: ${(cause as Error).message}.`
  return new ServiceError('journal_archive_unavailable', { detail, file }, cause)
}
