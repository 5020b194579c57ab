import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Sql } from '../start-postgres-and-redis.ts'

/** An archived month, and whether its file is in the directory. */
export interface ListedJournalArchive {
  readonly month: string
  readonly file: string
  readonly rows: number
  readonly bytes: number
  readonly sha256: string
  readonly archivedAt: Date
  readonly present: boolean
}

/** Lists the archived months, the oldest first. `gas verify` checks the contents of the files. */
export async function listJournalArchives(sql: Sql, dir: string): Promise<ListedJournalArchive[]> {
  const archives = await sql<Omit<ListedJournalArchive, 'present'>[]>`
    select to_char(month, 'YYYY-MM') as month, file, rows::float8 as rows, bytes::float8 as bytes, sha256,
           archived_at as "archivedAt"
      from journal_archives order by 1`
  return Promise.all(
    archives.map(async (archive) => {
      const found = await stat(join(dir, archive.file)).catch(() => null)
      return { ...archive, present: found?.size === archive.bytes }
    }),
  )
}
