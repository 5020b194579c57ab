import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { archiveJournalMonths } from '../../../persistence/journal-archive/archive-journal-months.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'

/** Gives a sample database an archived month. */

/** Moves the journal of an agent that does nothing more to a file; returns its folder. */
export async function archiveRestingAgentJournal(
  t: { teardown(work: () => unknown): unknown },
  sql: Sql,
  agentId: string,
): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-archive-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  await sql`
    create table journal_2026_01 partition of journal
      for values from ('2026-01-01T00:00:00Z') to ('2026-02-01T00:00:00Z')`
  await sql`update journal set at = '2026-01-05T00:00:00Z' where aggregate_id = ${agentId}`
  await archiveJournalMonths(sql, { dir, before: '2026-02' })
  return dir
}
