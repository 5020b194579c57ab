import {
  JOURNAL_FULL_STATE_INTERVAL,
  serializeStateDelta,
} from '../core/journal-actor-state-delta.ts'
import { machineRegistryEntry } from './machine-registry.ts'
import { toStoredActor, type LoadedActor, type ActorKey } from './loaded-aggregate-state.ts'
import type { StoredActor } from '../persistence/stored-aggregate.ts'

/** Turns the actors that a command changed into `journal.changed` (core/journal-actor-state-delta.ts). */

/** An actor that a command changed. */
export interface ChangedActor {
  readonly entry: LoadedActor
  /** Its stored form, once it was needed. */
  stored: (StoredActor & { readonly archived: boolean }) | null
}

/** The stored form of a changed actor, built once. */
export const storedFormOfActor = (changed: ChangedActor) =>
  (changed.stored ??= toStoredActor(changed.entry))

export interface JournaledChanges {
  /** JSON for the journal. */
  readonly changed: string
  readonly actors: readonly ChangedActor[]
}

/**
 * Compares the changed actors with those before the command. Sets `fullStateAt` and `maxChars` of the
 * new entries, which become the state of the aggregate; if their commit fails, that state is dropped.
 */
export function toJournalChangesOfActors(
  aggregateId: string,
  version: number,
  before: ReadonlyMap<ActorKey, LoadedActor>,
  dirty: ReadonlyMap<ActorKey, LoadedActor>,
): JournaledChanges {
  const actors: ChangedActor[] = []
  let changed = ''
  for (const [key, entry] of dirty) {
    const change: ChangedActor = { entry, stored: null }
    const text = journalChange(aggregateId, version, before.get(key), change)
    if (text === null) continue
    changed += changed === '' ? text : `,${text}`
    actors.push(change)
  }
  return { changed: `[${changed}]`, actors }
}

/** Null when nothing changed. */
function journalChange(
  aggregateId: string,
  version: number,
  before: LoadedActor | undefined,
  changed: ChangedActor,
): string | null {
  const { entry } = changed
  const machine = machineRegistryEntry(entry.kind).version
  const delta =
    before?.machineVersion === machine ? serializeStateDelta(before.snapshot, entry.snapshot) : null
  const { kind, id } = entry
  const name = id === aggregateId ? '' : `,"id":${JSON.stringify(id)}`
  let text = `{"kind":"${kind}"${name},"machine":${machine}`
  if (delta !== null && delta !== '') text += `,${delta}`
  const fullStateAt = before?.fullStateAt ?? null
  if (
    delta === null ||
    fullStateAt === null ||
    version - fullStateAt >= JOURNAL_FULL_STATE_INTERVAL
  ) {
    const { state } = storedFormOfActor(changed)
    entry.fullStateAt = version
    entry.maxChars = state.length
    return `${text},"state":${state}}`
  }
  entry.fullStateAt = fullStateAt
  entry.maxChars = (before?.maxChars ?? 0) + delta.length
  return delta === '' ? null : `${text}}`
}
