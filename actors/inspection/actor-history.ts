import {
  applyStateDelta,
  JOURNAL_FULL_STATE_INTERVAL,
  type ActorState,
  type JournalChange,
} from '../../core/journal-actor-state-delta.ts'
import type {
  JournaledActor,
  JournaledCommand,
  JournalHistoryStore,
} from '../../persistence/inspector/journal-history-store.ts'
import type { AnnouncedActor } from './cross-node-inspection-watch.ts'

/**
 * The past states of an actor, from the journal alone: a full state and the deltas after it. No machine
 * runs, so that states of earlier versions of a machine are shown as they were.
 */

/** A command that changed the actor, with the state after it. */
export interface ActorHistoryEntry extends Omit<JournaledCommand, 'change'> {
  readonly machineVersion: number
  readonly state: ActorState
  /** The state before it; null for the first one, and after a new version of the machine. */
  readonly before: ActorState | null
}

/** Versions of the aggregate that one request searches. */
const SEARCHED_VERSIONS = 20_000
/** Searches for a single state. */
const MAX_SEARCHES = 50

export function createActorHistory(store: JournalHistoryStore) {
  /** Adds the changes that the oldest one needs for its state. */
  async function withFullState(
    actor: JournaledActor,
    changes: readonly JournaledCommand[],
  ): Promise<readonly JournaledCommand[]> {
    const oldest = changes.at(-1)
    if (oldest === undefined || oldest.change.state !== undefined) return changes
    const from = Math.max(1, oldest.version - JOURNAL_FULL_STATE_INTERVAL + 1)
    const span = { from, before: oldest.version }
    return [...changes, ...(await store.changes(actor, span, JOURNAL_FULL_STATE_INTERVAL))]
  }

  /** Turns changes, the latest first, into entries for the first `count` of them. */
  function toEntries(changes: readonly JournaledCommand[], count: number): ActorHistoryEntry[] {
    const entries: ActorHistoryEntry[] = []
    let state: ActorState | null = null
    let machine = 0
    for (let at = changes.length - 1; at >= 0; at--) {
      const step = changes[at]
      if (step === undefined) continue
      const { change, ...command } = step
      const before: ActorState | null = machine === change.machine ? state : null
      state = foldChange(before, change)
      machine = change.machine
      if (at < count && state !== null)
        entries.unshift({ ...command, machineVersion: machine, state, before })
    }
    return entries
  }

  return {
    /** A page of entries, the latest first, before a version. `next` continues it; null at the start. */
    async page(
      actor: JournaledActor,
      before: number,
      limit: number,
    ): Promise<{ entries: ActorHistoryEntry[]; next: number | null }> {
      const from = Math.max(1, before - SEARCHED_VERSIONS)
      // One more, so that the oldest entry has a state before it.
      const changes = await store.changes(actor, { from, before }, limit + 1)
      const entries = toEntries(await withFullState(actor, changes), limit)
      const next = changes.length > limit ? (changes[limit - 1]?.version ?? from) : from
      return { entries, next: next > 1 ? next : null }
    },

    /** The last entry at or before a version, with its neighbours; null before the first. */
    async at(
      actor: JournaledActor,
      version: number,
    ): Promise<{ entry: ActorHistoryEntry; previous: number | null; next: number | null } | null> {
      const found = await search(actor, version)
      const [last, previous] = found
      if (last === undefined) return null
      const [entry] = toEntries(await withFullState(actor, found), 1)
      if (entry === undefined) return null
      const next = await store.nextChange(actor, last.version, SEARCHED_VERSIONS)
      return { entry, previous: previous?.version ?? null, next }
    },

    versionAt: store.versionAt,

    /** The states that announced steps have led to (cross-node-inspection-watch.ts). */
    async statesOf(actors: readonly AnnouncedActor[]): Promise<(ActorState | null)[]> {
      const versioned = actors.flatMap((one) =>
        one.version === null ? [] : [{ ...one, version: one.version }],
      )
      const changes = versioned.length === 0 ? [] : await store.changesBefore(versioned)
      const states: (ActorState | null)[] = []
      let at = 0
      for (const actor of actors) {
        const folded = actor.version === null ? null : foldAll(changes[at++] ?? [])
        // A step that changes nothing is not in the journal.
        states.push(folded ?? (await store.latestState(actor)))
      }
      return states
    },
  }

  /** The last two changes at or before a version. */
  async function search(actor: JournaledActor, version: number): Promise<JournaledCommand[]> {
    const found: JournaledCommand[] = []
    let before = version + 1
    for (let tries = 0; tries < MAX_SEARCHES && before > 1 && found.length < 2; tries++) {
      const from = Math.max(1, before - SEARCHED_VERSIONS)
      found.push(...(await store.changes(actor, { from, before }, 2 - found.length)))
      before = from
    }
    return found
  }
}
export type ActorHistory = ReturnType<typeof createActorHistory>

/** The state after a change; null while no full state is known. */
function foldChange(before: ActorState | null, change: JournalChange): ActorState | null {
  if (change.state !== undefined) return change.state
  return before === null ? null : applyStateDelta(before, change)
}

const foldAll = (changes: readonly JournalChange[]): ActorState | null =>
  changes.reduce<ActorState | null>(foldChange, null)
