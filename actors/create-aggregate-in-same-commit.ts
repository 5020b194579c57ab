import { stringifyWithBigints } from '../core/json/bigint.ts'
import { createInMemoryHoldBook, createInMemoryHoldChanges } from './loaded-aggregate-state.ts'
import { toJournalChangesOfActors, storedFormOfActor } from './changed-actors-to-journal-deltas.ts'
import type { AggregateCommand, CommandContext } from './aggregate-command-types.ts'
import { serializeCommandForJournal, createCommandContext } from './command-context.ts'

/**
 * Creates another aggregate in the commit of this command, as rows. Its id must be new and
 * unpublished: no version is checked. The command may create actors, rows and timers, and must not
 * move money.
 */
export function createAggregateInSameCommit<I, R>(
  ctx: CommandContext,
  id: string,
  creation: AggregateCommand<I, R>,
  input: I,
): R {
  const child = createCommandContext(
    id,
    { version: 0, actors: new Map() },
    createInMemoryHoldChanges(createInMemoryHoldBook()),
    ctx.now,
    ctx.recorded,
  )
  const made = creation.apply(child, input)
  const { dirty, rows, timers, ...rest } = child.effects
  const [more] = Object.entries(rest).find(([, some]) => some.length > 0) ?? []
  if (more !== undefined) throw new Error(`${creation.name} may not make ${more}`)
  const at = new Date(ctx.now).toISOString()
  ctx.row('aggregates', { id, kind: creation.kind, version: 1 })
  const { changed, actors } = toJournalChangesOfActors(id, 1, new Map(), dirty)
  for (const actor of actors.map(storedFormOfActor)) {
    ctx.row('actors', {
      aggregate_id: id,
      kind: actor.kind,
      id: actor.id,
      machine_version: actor.machineVersion,
      state: JSON.parse(actor.state),
      archived: actor.archived,
    })
  }
  ctx.row('journal', {
    aggregate_id: id,
    version: 1,
    command_id: ctx.newId(),
    command: JSON.parse(serializeCommandForJournal(creation.name, creation.note?.(input))),
    changed: JSON.parse(changed),
    at,
  })
  // The timer runner finds these at its next sweep.
  for (const timer of timers.values()) {
    if (timer === null) continue
    const { id: timerId, dueAt, command, input: timerInput } = timer
    ctx.row('timers', {
      aggregate_id: id,
      aggregate_kind: creation.kind,
      id: timerId,
      due_at: new Date(dueAt).toISOString(),
      command,
      input: JSON.parse(stringifyWithBigints(timerInput)),
    })
  }
  for (const { table, row } of rows) ctx.row(table, row)
  return made
}
