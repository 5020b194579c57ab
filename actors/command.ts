import type { DomainEvent } from '../core/domain-events.ts'
import type { Micros } from '../core/money.ts'
import type { UnstoredResponseReason } from '../domain/unstored-response.ts'
import type {
  AggregateKind,
  CallRow,
  InboxMessage,
  IdempotentResponse,
  DurableTimer,
  LedgerTransfer,
} from '../core/commit-rows.ts'
import type { ActorKind, ActorMachineEvent, ActorSnapshot, ActorInput } from './machine-registry.ts'

/** A hold kept in memory only: it counts in every guard until it is settled or let go. */
export interface InMemoryHold {
  readonly callId: string
  readonly at: number
  readonly amount: Micros
  readonly tool: string
  readonly keyId: string | null
  readonly taskId: string | null
  readonly backpackId: string | null
}

/**
 * One command's view of its aggregate: local variables over the committed state. What is done here
 * becomes one part of one commit, or nothing at all if the command is refused.
 */
export interface CommandContext {
  /** Milliseconds by the database's clock. */
  readonly now: number
  readonly aggregateId: string
  /** A new UUIDv7. */
  newId(): string
  has(kind: ActorKind, id: string): boolean
  /** The current snapshot; throws when the actor does not exist (ask `has` first). */
  snapshotOf<K extends ActorKind>(kind: K, id: string): ActorSnapshot<K>
  /** All actors of a kind that are in memory: those not at rest, and those this command touched. */
  all<K extends ActorKind>(kind: K): { id: string; snapshot: ActorSnapshot<K> }[]
  create<K extends ActorKind>(kind: K, id: string, input: ActorInput<K>): ActorSnapshot<K>
  /** Sends one event. A refusal of the chart is thrown as its ServiceError and ends the command. */
  send<K extends ActorKind>(kind: K, id: string, event: ActorMachineEvent<K>): ActorSnapshot<K>
  /** From here on, facts told by this command also go to the pager of this Backpack. */
  notifyPagerOf(backpackId: string): void
  transfer(transfer: LedgerTransfer): void
  call(row: CallRow): void
  inbox(message: InboxMessage): void
  event(event: DomainEvent): void
  /** Inserts into one of the tables listed in `stageable`; the row must name every column. */
  row(table: string, row: Record<string, unknown>): void
  timer(timer: DurableTimer): void
  cancelTimer(id: string): void
  /** Holds in memory, as this command would leave them. */
  readonly inMemoryHolds: InMemoryHolds
}

export interface InMemoryHolds {
  add(hold: InMemoryHold): void
  /** Ends a hold; false when there was none. */
  remove(callId: string): boolean
  get(callId: string): InMemoryHold | undefined
  /** The sum of all amounts held in memory for this aggregate. */
  readonly total: Micros
  /** The amounts of the holds that match. */
  sum(match: (hold: InMemoryHold) => boolean): Micros
  count(match: (hold: InMemoryHold) => boolean): number
}

/**
 * What can be asked of an aggregate. `apply` is synchronous and pure but for its turn: it may run
 * again on fresh state after a conflict. One that changes nothing is a read, still checked against
 * the version in Postgres before it is answered.
 */
export interface Command<I, R> {
  readonly name: string
  readonly kind: AggregateKind
  /** May run on an aggregate that does not exist yet. */
  readonly creates?: true
  apply(ctx: CommandContext, input: I): R
  /** What the journal keeps of the input; nothing when absent. No secrets, nothing a caller shaped. */
  note?(input: I): Record<string, unknown>
}

/** Asks that the answer be kept under the caller's Idempotency-Key, in the commit of the command. */
export interface CommandIdempotency {
  readonly operation: string
  readonly key: string
  readonly hash: string
  readonly keyId: string | null
  /** The answer to keep, from what the command returned. */
  present(result: unknown): { status: number; body: unknown }
  /** Hears why the answer is not kept after all, or null; again where the command runs again. */
  stored?(reason: UnstoredResponseReason | null): void
}

/** Another node answered this Idempotency-Key first; `stored` is what it answered. */
export class IdempotentReplayError extends Error {
  readonly stored: IdempotentResponse
  constructor(stored: IdempotentResponse) {
    super('this Idempotency-Key has been answered already')
    this.stored = stored
  }
}

export interface CommandOptions {
  /** Actors that may be at rest and out of memory: they are loaded before the command runs. */
  readonly touch?: readonly { readonly kind: ActorKind; readonly id: string }[]
  readonly receipt?: CommandIdempotency
  /**
   * The caller's Idempotency-Key: looked up again whenever another node may have answered it. One that
   * only a row of the command has is looked up once that row has kept it from being committed.
   */
  readonly key?: string | undefined
  /** When that look-up began (`clock.mono()`): a state read after it may stand on a newer answer. */
  readonly lookedUpAt?: number | undefined
  /** The id was made just now: there is nothing to load. */
  readonly fresh?: true
}

export interface ActorSystem {
  /**
   * Runs a command in its aggregate, in order, and answers after COMMIT. Rejects with the
   * ServiceError of a refusal; `overloaded` when the mailbox is full, `unavailable` when the
   * database does not answer in time.
   */
  ask<I, R>(id: string, command: Command<I, R>, input: I, options?: CommandOptions): Promise<R>
  /** Ends a hold in memory at once, whether or not the database answers. */
  releaseHold(id: string, callId: string): void
}
