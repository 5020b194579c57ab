import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { compareStoredActorsWithJournal } from '../random-commands/compare-journal-with-states.ts'

/** For suites of payments without a whole station: their journals are the states that they stored. */

/** Fails the test at its end unless the journal alone leads to the stored state of every actor. */
export function assertJournalMatchesActorsAtTestEnd(
  t: { teardown(work: () => Promise<void>): unknown },
  sql: Sql,
): void {
  t.teardown(async () => {
    const { compared, different } = await compareStoredActorsWithJournal(sql)
    if (different.length > 0)
      throw new Error(`of ${compared} actors the journal differs for ${different.join('\n')}`)
  })
}
