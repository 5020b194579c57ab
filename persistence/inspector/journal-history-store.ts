import type { ActorState, JournalChange } from '../../core/journal-actor-state-delta.ts'
import { JOURNAL_FULL_STATE_INTERVAL } from '../../core/journal-actor-state-delta.ts'
import {
  createArchivedJournalReader,
  type ArchivedJournalRow,
} from '../journal-archive/archived-journal-reader.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Reads what the journal has of one actor: rows of the database, then those of archived months. */

/** A command that changed the actor. */
export interface JournaledCommand {
  readonly version: number
  readonly at: Date
  readonly commandId: string
  readonly command: { readonly name: string; readonly input?: unknown }
  readonly change: JournalChange
}

/** An actor in its aggregate. */
export interface JournaledActor {
  readonly aggregateId: string
  readonly kind: string
  readonly id: string
}

/** Creates the reader; `archiveDir` has the files of archived months. */
export function createJournalHistoryStore(sql: Sql, archiveDir: string) {
  const archive = createArchivedJournalReader(sql, archiveDir)

  /** The element of `changed` for the actor; the text is searched first, which spares most of the JSON. */
  const changeOf = ({ kind, id, aggregateId }: JournaledActor) => sql`
    cross join lateral (select c.value from json_array_elements(case
        when ${id === aggregateId} or position(${JSON.stringify(id)} in j.changed::text) > 0
        then j.changed else '[]'::json end) c(value)
      where c.value->>'kind' = ${kind} and coalesce(c.value->>'id', j.aggregate_id) = ${id} limit 1) c`

  const columns = sql`j.version::int, j.at, j.command_id as "commandId", j.command, c.value as change`

  /** Archived changes of an actor up to its version and before another one, the earliest first. */
  async function archivedChanges(
    actor: JournaledActor & { readonly version: number },
    before: number,
  ): Promise<JournalChange[]> {
    const changes: JournalChange[] = []
    const range = { from: Math.max(1, actor.version - JOURNAL_FULL_STATE_INTERVAL + 1), before }
    for await (const row of archive.rows(actor.aggregateId, range, 'earliest first')) {
      const change = changeIn(actor, row)
      if (change !== undefined) changes.push(change)
    }
    return changes
  }

  return {
    /** Changes of the actor with versions from `from` to before `before`, the latest first. */
    async changes(
      actor: JournaledActor,
      span: { readonly from: number; readonly before: number },
      limit: number,
    ): Promise<JournaledCommand[]> {
      const found: JournaledCommand[] = await sql<JournaledCommand[]>`
        select ${columns} from journal j ${changeOf(actor)}
         where j.aggregate_id = ${actor.aggregateId}
           and j.version >= ${span.from} and j.version < ${span.before}
         order by j.version desc limit ${limit}`
      // Archived versions come before all others; a month may be archived between the two queries.
      if (found.length >= limit) return found
      const before = found.at(-1)?.version ?? span.before
      const range = { from: span.from, before }
      for await (const row of archive.rows(actor.aggregateId, range, 'latest first')) {
        const one = toJournaledCommand(actor, row)
        if (one !== null) found.push(one)
        if (found.length >= limit) break
      }
      return found
    },

    /** The first change after a version, within so many versions. */
    async nextChange(
      actor: JournaledActor,
      version: number,
      within: number,
    ): Promise<number | null> {
      const [row] = await sql<{ version: number }[]>`
        select j.version::int from journal j ${changeOf(actor)}
         where j.aggregate_id = ${actor.aggregateId}
           and j.version > ${version} and j.version <= ${version + within}
         order by j.version limit 1`
      const range = {
        from: version + 1,
        before: Math.min(version + within, row?.version ?? Infinity) + 1,
      }
      for await (const archived of archive.rows(actor.aggregateId, range, 'earliest first'))
        if (changeIn(actor, archived) !== undefined) return archived.version
      return row?.version ?? null
    },

    /** The latest version of an aggregate at an instant; null before its first. */
    async versionAt(aggregateId: string, at: Date): Promise<number | null> {
      const [row] = await sql<{ version: number }[]>`
        select version::int from journal where aggregate_id = ${aggregateId} and at <= ${at}
         order by version desc limit 1`
      return row?.version ?? (await archive.versionAt(aggregateId, at))
    },

    /**
     * The changes that make the state of each actor at its version: the latest full state at or before
     * it, which is at most `JOURNAL_FULL_STATE_INTERVAL` versions away, and the deltas after that.
     */
    async changesBefore(
      actors: readonly (JournaledActor & { readonly version: number })[],
    ): Promise<JournalChange[][]> {
      const rows = await sql<{ at: number; version: number; change: JournalChange }[]>`
        select w.at::int, j.version::int, c.value as change
          from unnest(${toTextArrayLiteral(actors.map((one) => one.aggregateId))}::text[],
                      ${toTextArrayLiteral(actors.map((one) => one.kind))}::text[],
                      ${toTextArrayLiteral(actors.map((one) => one.id))}::text[],
                      ${toTextArrayLiteral(actors.map((one) => String(one.version)))}::bigint[])
               with ordinality w(aggregate_id, kind, id, version, at)
          join journal j on j.aggregate_id = w.aggregate_id and j.version <= w.version
                        and j.version > w.version - ${JOURNAL_FULL_STATE_INTERVAL}
          cross join lateral (select c.value from json_array_elements(j.changed) c(value)
            where c.value->>'kind' = w.kind and coalesce(c.value->>'id', j.aggregate_id) = w.id limit 1) c
         order by w.at, j.version`
      const found = actors.map(() => [] as (typeof rows)[number][])
      for (const row of rows) found[row.at - 1]?.push(row)
      return Promise.all(
        actors.map(async (actor, at) => {
          const live = found[at] ?? []
          const [first] = live
          const changes = live.map(({ change }) => change)
          if (first?.change.state !== undefined) return changes
          const before = first?.version ?? actor.version + 1
          return [...(await archivedChanges(actor, before)), ...changes]
        }),
      )
    },

    /** The stored state of an actor; null for an unknown one. */
    async latestState({ aggregateId, kind, id }: JournaledActor): Promise<ActorState | null> {
      const [row] = await sql<{ state: ActorState }[]>`
        select state from actors where aggregate_id = ${aggregateId} and kind = ${kind} and id = ${id}`
      return row?.state ?? null
    },
  }
}

const changeIn = (
  { kind, id, aggregateId }: JournaledActor,
  { changed }: ArchivedJournalRow,
): JournalChange | undefined =>
  changed.find((change) => change.kind === kind && (change.id ?? aggregateId) === id)

function toJournaledCommand(
  actor: JournaledActor,
  row: ArchivedJournalRow,
): JournaledCommand | null {
  const change = changeIn(actor, row)
  if (change === undefined) return null
  const { version, at, command_id: commandId, command } = row
  return { version, at: new Date(at), commandId, command, change }
}
export type JournalHistoryStore = ReturnType<typeof createJournalHistoryStore>
