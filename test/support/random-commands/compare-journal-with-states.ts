import { isDeepStrictEqual } from 'node:util'
import { createActorHistory } from '../../../actors/inspection/actor-history.ts'
import { stringifyWithBigints } from '../../../core/json/bigint.ts'
import type { ActorState } from '../../../core/journal-actor-state-delta.ts'
import {
  createJournalHistoryStore,
  type JournaledActor,
} from '../../../persistence/inspector/journal-history-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import type { SentRandomCommands } from './send-random-commands.ts'

/** Compares states from the journal alone with stored ones and with those that senders saw. */

interface ExpectedState {
  readonly actor: JournaledActor
  readonly version: number
  readonly state: ActorState
}

export interface JournalComparison {
  readonly compared: number
  /** At most ten. */
  readonly different: readonly string[]
}

const QUERIES_AT_ONCE = 6
/** Of databases in which nothing is archived. */
const NO_ARCHIVE = '/nonexistent'

/** As the code behind the history of an actor rebuilds it. */
async function compareWithJournal(
  sql: Sql,
  expected: readonly ExpectedState[],
  archiveDir: string,
): Promise<JournalComparison> {
  const history = createActorHistory(createJournalHistoryStore(sql, archiveDir))
  const different: string[] = []
  const waiting = [...expected]
  const compareAll = async () => {
    for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
      const { actor, version, state } = one
      // A delta that does not fit throws.
      const found = await history.at(actor, version).catch((error: unknown) => String(error))
      const isEqual =
        found !== null && typeof found === 'object' && isDeepStrictEqual(found.entry.state, state)
      if (!isEqual && different.length < 10)
        different.push(
          `${actor.kind} ${actor.id} at ${version}: ${JSON.stringify({ found, state })}`,
        )
    }
  }
  await Promise.all(Array.from({ length: QUERIES_AT_ONCE }, compareAll))
  return { compared: expected.length, different }
}

/** Every stored actor at the last version of its aggregate. */
export async function compareStoredActorsWithJournal(
  sql: Sql,
  archiveDir: string = NO_ARCHIVE,
): Promise<JournalComparison> {
  const rows = await sql<(JournaledActor & Omit<ExpectedState, 'actor'>)[]>`
    select a.aggregate_id as "aggregateId", a.kind, a.id, a.state, g.version::int
      from actors a join aggregates g on g.id = a.aggregate_id`
  return compareWithJournal(
    sql,
    rows.map(({ version, state, ...actor }) => ({ actor, version, state })),
    archiveDir,
  )
}

interface NumberedVersion {
  readonly number: number
  readonly aggregateId: string
  readonly version: number
}

/** Every actor at so many versions, drawn from all, as the command of that version left it to its sender. */
export async function compareSeenStatesWithJournal(
  sql: Sql,
  seen: SentRandomCommands['seen'],
  versions: number,
): Promise<JournalComparison & { readonly versions: number }> {
  const rows = await sql<NumberedVersion[]>`
    select (j.command->'input'->>'number')::int as number, j.aggregate_id as "aggregateId", j.version::int
      from journal j join aggregates g on g.id = j.aggregate_id
     where j.version < g.version and j.command->'input'->>'number' is not null
     order by md5(j.command->'input'->>'number')`
  const sampled = rows.filter(({ number }) => seen.has(number)).slice(0, versions)
  const expected = sampled.flatMap(({ number, aggregateId, version }) =>
    (seen.get(number) ?? []).map(({ kind, id, state: { value, context } }) => {
      const state = JSON.parse(stringifyWithBigints({ value, context })) as ActorState
      return { actor: { aggregateId, kind, id }, version, state }
    }),
  )
  return { ...(await compareWithJournal(sql, expected, NO_ARCHIVE)), versions: sampled.length }
}

/** Numbers of commands that stand in the journal more than once. */
export async function findDoubledCommands(sql: Sql): Promise<number[]> {
  const rows = await sql<{ number: number }[]>`
    select (command->'input'->>'number')::int as number from journal
     where command->'input'->>'number' is not null group by 1 having count(*) > 1`
  return rows.map(({ number }) => number)
}
