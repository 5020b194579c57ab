import { encode } from '../core/codec.ts'
import { dehydrate, noHolds, softChanges } from './aggregate.ts'
import type { Command, Turn } from './command.ts'
import { changedText, commandText, openTurn } from './turn.ts'

/**
 * Runs the command that makes another aggregate, and lets everything it made ride in this turn's
 * commit as rows: so both are there, or neither. Its id must be new and known to nobody else yet:
 * there is no version to check. It may make actors, rows and timers, and move no money.
 */
export function bear<I, R>(turn: Turn, id: string, birth: Command<I, R>, input: I): R {
  const child = openTurn(id, { version: 0, actors: new Map() }, softChanges(noHolds()), turn.now)
  const made = birth.apply(child, input)
  const { dirty, rows, timers, ...rest } = child.effects
  const [more] = Object.entries(rest).find(([, some]) => some.length > 0) ?? []
  if (more !== undefined) throw new Error(`${birth.name} may not make ${more}`)
  const at = new Date(turn.now).toISOString()
  turn.row('aggregates', { id, kind: birth.kind, version: 1 })
  const actors = [...dirty.values()].map(dehydrate)
  for (const actor of actors) {
    turn.row('actors', {
      aggregate_id: id,
      kind: actor.kind,
      id: actor.id,
      machine_version: actor.machineVersion,
      state: JSON.parse(actor.state),
      at_rest: actor.atRest,
    })
  }
  turn.row('journal', {
    aggregate_id: id,
    version: 1,
    command_id: turn.id(),
    command: JSON.parse(commandText(birth.name, birth.note?.(input))),
    changed: JSON.parse(changedText(actors)),
    at,
  })
  // The alarm finds these with its next sweep.
  for (const timer of timers.values()) {
    if (timer === null) continue
    const { id: timerId, dueAt, command, input: told } = timer
    turn.row('timers', {
      aggregate_id: id,
      aggregate_kind: birth.kind,
      id: timerId,
      due_at: new Date(dueAt).toISOString(),
      command,
      input: JSON.parse(encode(told)),
    })
  }
  for (const { table, row } of rows) turn.row(table, row)
  return made
}
