import { parseWithBigints, stringifyWithBigints } from '../core/json/bigint.ts'
import { ServiceError } from '../core/errors.ts'
import {
  addMicros,
  asMicros,
  subtractMicros,
  sumMicros,
  ZERO_MICROS,
  type Micros,
} from '../core/money.ts'
import type { StoredActor, StoredAggregate } from '../persistence/stored-aggregate.ts'
import type { InMemoryHold, InMemoryHolds } from './aggregate-command-types.ts'
import {
  machineRegistryEntry,
  isActorKind,
  isArchivedActor,
  resolveActorState,
  type ActorKind,
  type StoredMachineState,
} from './machine-registry.ts'
import type { MachineOrReducerSnapshot } from './pure-machine-transition.ts'

/** The in-memory form of an aggregate: its actors and its in-memory holds. */

export type ActorKey = string
export const actorKey = (kind: ActorKind, id: string): ActorKey => `${kind}:${id}`

export interface LoadedActor {
  readonly kind: ActorKind
  readonly id: string
  readonly snapshot: MachineOrReducerSnapshot
  /** The machine version that its latest stored form has. */
  readonly machineVersion: number
  /**
   * The version of the aggregate at its latest full state in the journal; null until this node has
   * written one.
   */
  fullStateAt: number | null
  /** Upper limit of the characters of its stored form. Valid if `fullStateAt` is set. */
  maxChars: number
}

/** Actors that commit together, as this node last read or wrote them. */
export interface LoadedAggregateActors {
  version: number
  readonly actors: Map<ActorKey, LoadedActor>
}

/**
 * Rebuilds an aggregate. Throws `snapshot_too_new` or `quarantined` for snapshots it cannot read.
 */
export function hydrateAggregate(stored: StoredAggregate | undefined): LoadedAggregateActors {
  const actors = new Map<ActorKey, LoadedActor>()
  for (const one of stored?.actors ?? []) {
    const entry = hydrateActor(one)
    actors.set(actorKey(entry.kind, entry.id), entry)
  }
  return { version: stored?.version ?? 0, actors }
}

export function hydrateActor(stored: StoredActor): LoadedActor {
  const { kind, id } = stored
  if (!isActorKind(kind)) throw new ServiceError('snapshot_too_new', { retry_after: 5 })
  const { version, upcasters } = machineRegistryEntry(kind)
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
    const snapshot = resolveActorState(kind, state)
    const { machineVersion } = stored
    return { kind, id, snapshot, machineVersion, fullStateAt: null, maxChars: 0 }
  } catch (error) {
    throw new ServiceError('quarantined', { retry_after: 60 }, error)
  }
}

/** Removes ended actors from memory after their commit. A command that needs one loads it. */
export function evictArchivedActors({ actors }: LoadedAggregateActors): void {
  for (const [key, { kind, snapshot }] of actors) {
    if (isArchivedActor(kind, snapshot)) actors.delete(key)
  }
}

/** The stored form of an actor. */
export function toStoredActor(entry: LoadedActor): StoredActor & { readonly archived: boolean } {
  const { version } = machineRegistryEntry(entry.kind)
  return {
    kind: entry.kind,
    id: entry.id,
    machineVersion: version,
    state: stringifyWithBigints({ value: entry.snapshot.value, context: entry.snapshot.context }),
    archived: isArchivedActor(entry.kind, entry.snapshot),
  }
}

/** In-memory holds of one aggregate. They survive its eviction. */
export interface InMemoryHoldBook {
  readonly holds: Map<string, InMemoryHold>
  total: Micros
}
export const createInMemoryHoldBook = (): InMemoryHoldBook => ({
  holds: new Map(),
  total: ZERO_MICROS,
})

/** Changes of one command to the in-memory holds, applied only when the command is accepted. */
export interface InMemoryHoldChanges extends InMemoryHolds {
  readonly changed: boolean
  apply(): void
  /** Undoes `apply` after a failed commit. */
  revert(): void
  /** Removes every hold of the command: its commit failed and its caller has left. */
  abandon(): void
}

/** The part of a hold that the balance pays. */
const ofBalance = ({ amount, passId }: InMemoryHold): Micros =>
  passId === null ? amount : ZERO_MICROS

export const createInMemoryHoldChanges = (ledger: InMemoryHoldBook): InMemoryHoldChanges =>
  new HoldChangesOfCommand(ledger)

const NO_HOLDS: readonly InMemoryHold[] = []

/** A class without lists of its own until it changes something: most commands change nothing. */
class HoldChangesOfCommand implements InMemoryHoldChanges {
  readonly #ledger: InMemoryHoldBook
  #taken = NO_HOLDS
  #dropped = NO_HOLDS

  constructor(ledger: InMemoryHoldBook) {
    this.#ledger = ledger
  }

  add(hold: InMemoryHold): void {
    this.#taken = [...this.#taken, hold]
  }

  remove(callId: string): boolean {
    const hold = this.get(callId)
    if (hold === undefined) return false
    this.#dropped = [...this.#dropped, hold]
    return true
  }

  get(callId: string): InMemoryHold | undefined {
    const hold = this.#ledger.holds.get(callId)
    return hold !== undefined && this.#isOpen(hold) ? hold : undefined
  }

  get total(): Micros {
    const gone = sumMicros(this.#dropped.map(ofBalance))
    return addMicros(
      subtractMicros(this.#ledger.total, gone),
      sumMicros(this.#taken.map(ofBalance)),
    )
  }

  get isEmpty(): boolean {
    return this.#taken.length === 0 && this.#ledger.holds.size === this.#dropped.length
  }

  sum(match: (hold: InMemoryHold) => boolean): Micros {
    let all = 0n
    for (const hold of this.#open()) if (match(hold)) all += hold.amount
    return asMicros(all)
  }

  count(match: (hold: InMemoryHold) => boolean): number {
    let all = 0
    for (const hold of this.#open()) if (match(hold)) all += 1
    return all
  }

  get changed(): boolean {
    return this.#taken.length > 0 || this.#dropped.length > 0
  }

  apply(): void {
    for (const hold of this.#dropped) removeInMemoryHold(this.#ledger, hold)
    for (const hold of this.#taken) insertInMemoryHold(this.#ledger, hold)
  }

  revert(): void {
    for (const hold of this.#taken) removeInMemoryHold(this.#ledger, hold)
    for (const hold of this.#dropped) insertInMemoryHold(this.#ledger, hold)
  }

  abandon(): void {
    for (const hold of [...this.#taken, ...this.#dropped]) removeInMemoryHold(this.#ledger, hold)
  }

  #isOpen(hold: InMemoryHold): boolean {
    return !this.#dropped.includes(hold)
  }

  *#open(): Generator<InMemoryHold> {
    for (const hold of this.#ledger.holds.values()) if (this.#isOpen(hold)) yield hold
    yield* this.#taken
  }
}

function insertInMemoryHold(ledger: InMemoryHoldBook, hold: InMemoryHold): void {
  if (ledger.holds.has(hold.callId)) return
  ledger.holds.set(hold.callId, hold)
  ledger.total = addMicros(ledger.total, ofBalance(hold))
}

/** Removes one hold. Does nothing when there is none. */
export function removeInMemoryHoldByCall(ledger: InMemoryHoldBook, callId: string): void {
  const hold = ledger.holds.get(callId)
  if (hold !== undefined) removeInMemoryHold(ledger, hold)
}

function removeInMemoryHold(ledger: InMemoryHoldBook, hold: InMemoryHold): void {
  if (ledger.holds.delete(hold.callId)) ledger.total = subtractMicros(ledger.total, ofBalance(hold))
}
