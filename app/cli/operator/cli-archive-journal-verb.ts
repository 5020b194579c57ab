import {
  archiveJournalMonths,
  readFirstUnarchivedJournalMonth,
  type ArchivedJournalMonth,
} from '../../../persistence/journal-archive/archive-journal-months.ts'
import { listJournalArchives } from '../../../persistence/journal-archive/list-journal-archives.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { loadConfig } from '../../config.ts'
import { CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { printJson, printLine } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'

/** `gas archive`: old months of the journal in files. */

export const archiveCliVerb: CliVerb = {
  forms: ['journal --before <YYYY-MM>', 'ls'],
  about:
    'Works on a live station. Files go to JOURNAL_ARCHIVE_DIR, by default DATA_DIR/journal-archive: keep them as long as the database, where every node reads them. The current month and the one before it stay in the database.',
  options: {
    before: { value: 'YYYY-MM', description: 'the first month that stays in the database' },
    ...CLI_JSON_OPTION,
  },
  examples: ['gas archive journal --before 2026-01', 'gas archive ls'],
  async run({ words: [what, ...more], text, has }) {
    const before = text('before')
    if (more.length > 0 || (what !== 'journal' && what !== 'ls')) throw new CliUsageError('')
    if ((what === 'journal') !== (before !== null))
      throw new CliUsageError('journal needs --before YYYY-MM')
    if (before !== null && !/^\d{4}-(0[1-9]|1[0-2])$/.test(before))
      throw new CliUsageError('--before must be a month such as 2026-01')
    const config = loadConfig()
    const dir = config.journalArchiveDir
    return withStationDatabase(
      ({ sql }) =>
        before === null
          ? printArchives(sql, dir, has('json'))
          : archive(sql, dir, before, has('json')),
      config,
    )
  },
}

async function archive(sql: Sql, dir: string, before: string, isJson: boolean): Promise<number> {
  const firstKept = await readFirstUnarchivedJournalMonth(sql)
  if (before > firstKept) throw new CliUsageError(`--before must be ${firstKept} or earlier`)
  const onArchived = (month: ArchivedJournalMonth): void => {
    if (isJson) printJson(month)
    else printLine(describeArchived(month))
  }
  const archived = await archiveJournalMonths(sql, { dir, before, onArchived })
  if (archived.length === 0 && !isJson) printLine(`no month before ${before} is in the database`)
  return 0
}

const describeArchived = ({ month, rows, file, bytes }: ArchivedJournalMonth): string =>
  file === null ? `${month}  no rows to archive` : `${month}  ${rows} rows, ${bytes} bytes  ${file}`

async function printArchives(sql: Sql, dir: string, isJson: boolean): Promise<number> {
  const archives = await listJournalArchives(sql, dir)
  for (const { month, file, rows, bytes, sha256, archivedAt, present } of archives) {
    if (isJson) printJson({ month, file, rows, bytes, sha256, archived_at: archivedAt, present })
    else printLine(`${month}  ${rows} rows, ${bytes} bytes  ${file}${present ? '' : '  MISSING'}`)
  }
  if (archives.length === 0 && !isJson) printLine('nothing is archived')
  return archives.every(({ present }) => present) ? 0 : 1
}
