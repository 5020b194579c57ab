import type { AnyMachineSnapshot } from 'xstate'
import { parseWithBigints, stringifyWithBigints } from '../core/bigint-json.ts'
import { ServiceError } from '../core/errors.ts'
import { addMicros, micros, subtractMicros, ZERO, type Micros } from '../core/money.ts'
import type { StoredActor, StoredAggregate } from '../persistence/stored-aggregate.ts'
import type { InMemoryHold, InMemoryHolds } from './aggregate-command-types.ts'
import {
  machineRegistryEntry,
  isActorKind,
  type ActorKind,
  type StoredMachineState,
} from './machine-registry.ts'

/** The in-memory form of an aggregate: its actors and its in-memory holds. */

export type ActorKey = string
export const actorKey = (kind: ActorKind, id: string): ActorKey => `${kind}:${id}`

export interface ActorEntry {
  readonly kind: ActorKind
  readonly id: string
  readonly snapshot: AnyMachineSnapshot
}

/** Actors that commit together, as this node last read or wrote them. */
export interface Aggregate {
  version: number
  readonly actors: Map<ActorKey, ActorEntry>
}

/**
 * Rebuilds an aggregate. Throws `snapshot_too_new` or `quarantined` for snapshots it cannot read.
 */
export function hydrateAggregate(stored: StoredAggregate | undefined): Aggregate {
  const actors = new Map<ActorKey, ActorEntry>()
  for (const one of stored?.actors ?? []) {
    const entry = hydrateActor(one)
    actors.set(actorKey(entry.kind, entry.id), entry)
  }
  return { version: stored?.version ?? 0, actors }
}

export function hydrateActor(stored: StoredActor): ActorEntry {
  const { kind, id } = stored
  if (!isActorKind(kind)) throw new ServiceError('snapshot_too_new', { retry_after: 5 })
  const { machine, version, upcasters } = machineRegistryEntry(kind)
  if (stored.machineVersion > version) {
    throw new ServiceError('snapshot_too_new', { retry_after: 5 })
  }
  try {
    let state = parseWithBigints<StoredMachineState>(stored.state)
    for (let from = stored.machineVersion; from < version; from++) {
      const upcast = upcasters[from]
      if (upcast === undefined) throw new Error(`no upcaster from version ${from} of ${kind}`)
      state = upcast(state)
    }
    return { kind, id, snapshot: machine.resolveState(state as never) as AnyMachineSnapshot }
  } catch (error) {
    throw new ServiceError('quarantined', { retry_after: 60 }, error)
  }
}

/** Removes ended actors from memory after their commit. A command that needs one loads it. */
export function evictArchivedActors({ actors }: Aggregate): void {
  for (const [key, { kind, snapshot }] of actors) {
    if (machineRegistryEntry(kind).isArchived(snapshot)) actors.delete(key)
  }
}

/** The stored form of an actor. */
export function toStoredActor(entry: ActorEntry): StoredActor & { readonly archived: boolean } {
  const { version, isArchived } = machineRegistryEntry(entry.kind)
  return {
    kind: entry.kind,
    id: entry.id,
    machineVersion: version,
    state: stringifyWithBigints({ value: entry.snapshot.value, context: entry.snapshot.context }),
    archived: isArchived(entry.snapshot),
  }
}

/** In-memory holds of one aggregate. They survive its eviction. */
export interface InMemoryHoldBook {
  readonly holds: Map<string, InMemoryHold>
  total: Micros
}
export const createInMemoryHoldBook = (): InMemoryHoldBook => ({ holds: new Map(), total: ZERO })

/** Changes of one command to the in-memory holds, applied only when the command is accepted. */
export interface InMemoryHoldChanges extends InMemoryHolds {
  readonly changed: boolean
  apply(): void
  /** Undoes `apply` after a failed commit. */
  revert(): void
  /** Removes every hold of the command: its commit failed and its caller has left. */
  abandon(): void
}

export function createInMemoryHoldChanges(ledger: InMemoryHoldBook): InMemoryHoldChanges {
  const taken: InMemoryHold[] = []
  const dropped: InMemoryHold[] = []
  const isOpen = (hold: InMemoryHold) => !dropped.includes(hold)
  const open = function* () {
    for (const hold of ledger.holds.values()) if (isOpen(hold)) yield hold
    yield* taken
  }
  return {
    add: (hold) => void taken.push(hold),
    remove(callId) {
      const hold = ledger.holds.get(callId)
      if (hold === undefined || !isOpen(hold)) return false
      dropped.push(hold)
      return true
    },
    get(callId) {
      const hold = ledger.holds.get(callId)
      return hold !== undefined && isOpen(hold) ? hold : undefined
    },
    get total() {
      const gone = dropped.reduce((all, hold) => addMicros(all, hold.amount), ZERO)
      return taken.reduce(
        (all, hold) => addMicros(all, hold.amount),
        subtractMicros(ledger.total, gone),
      )
    },
    sum(match) {
      let all = 0n
      for (const hold of open()) if (match(hold)) all += hold.amount
      return micros(all)
    },
    count(match) {
      let all = 0
      for (const hold of open()) if (match(hold)) all += 1
      return all
    },
    get changed() {
      return taken.length > 0 || dropped.length > 0
    },
    apply() {
      for (const hold of dropped) removeInMemoryHold(ledger, hold)
      for (const hold of taken) insertInMemoryHold(ledger, hold)
    },
    revert() {
      for (const hold of taken) removeInMemoryHold(ledger, hold)
      for (const hold of dropped) insertInMemoryHold(ledger, hold)
    },
    abandon() {
      for (const hold of [...taken, ...dropped]) removeInMemoryHold(ledger, hold)
    },
  }
}

function insertInMemoryHold(ledger: InMemoryHoldBook, hold: InMemoryHold): void {
  if (ledger.holds.has(hold.callId)) return
  ledger.holds.set(hold.callId, hold)
  ledger.total = addMicros(ledger.total, hold.amount)
}

/** Removes one hold. Does nothing when there is none. */
export function removeInMemoryHoldByCall(ledger: InMemoryHoldBook, callId: string): void {
  const hold = ledger.holds.get(callId)
  if (hold !== undefined) removeInMemoryHold(ledger, hold)
}

function removeInMemoryHold(ledger: InMemoryHoldBook, hold: InMemoryHold): void {
  if (ledger.holds.delete(hold.callId)) ledger.total = subtractMicros(ledger.total, hold.amount)
}
