import type { DomainEvent } from '../core/domain-events.ts'
import type { Micros } from '../core/money.ts'
import type { UnstoredResponseReason } from '../domain/unstored-response-reasons.ts'
import type {
  AggregateKind,
  CallRow,
  InboxMessage,
  IdempotentResponse,
  DurableTimer,
  LedgerTransfer,
  CallPriceWithoutAgentShares,
} from '../core/aggregate-commit-row-types.ts'
import type { RecordedActorStep } from './inspection/command-recorder.ts'
import type { ActorKind, ActorMachineEvent, ActorSnapshot, ActorInput } from './machine-registry.ts'

/** A hold kept in memory only. Every guard counts it until it is settled or released. */
export interface InMemoryHold {
  readonly callId: string
  readonly at: number
  readonly amount: Micros
  readonly tool: string
  readonly keyId: string | null
  readonly taskId: string | null
  readonly backpackId: string | null
  /** The task pass that pays. The amount then counts in every limit, and not in the balance. */
  readonly passId: string | null
}

/**
 * One command's view of its aggregate: local variables over the committed state. All effects become
 * part of one commit, or none when the command is rejected.
 */
export interface CommandContext {
  /** Database time in milliseconds. */
  readonly now: number
  readonly aggregateId: string
  /** Returns a new UUIDv7. */
  newId(): string
  has(kind: ActorKind, id: string): boolean
  /** The current snapshot. Throws when the actor does not exist; check `has` first. */
  snapshotOf<K extends ActorKind>(kind: K, id: string): ActorSnapshot<K>
  /** All actors of a kind in memory: those not archived, and those this command touched. */
  all<K extends ActorKind>(kind: K): { id: string; snapshot: ActorSnapshot<K> }[]
  create<K extends ActorKind>(kind: K, id: string, input: ActorInput<K>): ActorSnapshot<K>
  /** Sends one event. Throws the ServiceError of the machine's rejection and ends the command. */
  send<K extends ActorKind>(kind: K, id: string, event: ActorMachineEvent<K>): ActorSnapshot<K>
  /** Sends the events this command emits from now on to the pager of this Backpack too. */
  notifyPagerOf(backpackId: string): void
  transfer(transfer: LedgerTransfer): void
  /** Books the price of a call in one row. */
  price(price: CallPriceWithoutAgentShares): void
  call(row: CallRow): void
  inbox(message: InboxMessage): void
  event(event: DomainEvent): void
  /** Inserts into a table listed in `stageable`. The row must name every column. */
  row(table: string, row: Record<string, unknown>): void
  timer(timer: DurableTimer): void
  cancelTimer(id: string): void
  /** In-memory holds with the changes of this command. */
  readonly inMemoryHolds: InMemoryHolds
  /** The steps so far, while somebody watches; else null. */
  readonly recorded: RecordedActorStep[] | null
}

export interface InMemoryHolds {
  add(hold: InMemoryHold): void
  /** Removes a hold. Returns false when there was none. */
  remove(callId: string): boolean
  get(callId: string): InMemoryHold | undefined
  /** Sum of the amounts that are held in memory of the balance of this aggregate. */
  readonly total: Micros
  /** Whether no call holds anything in memory. */
  readonly isEmpty: boolean
  /** Sum of the amounts of matching holds. */
  sum(match: (hold: InMemoryHold) => boolean): Micros
  count(match: (hold: InMemoryHold) => boolean): number
}

/**
 * A command to an aggregate. `apply` is synchronous and has no other side effects than its context:
 * it may run again on fresh state after a conflict. A command without effects is a read; its
 * version is still checked in Postgres before it is answered.
 */
export interface AggregateCommand<I, R> {
  readonly name: string
  readonly kind: AggregateKind
  /** May run on an aggregate that does not exist yet. */
  readonly creates?: true
  /** Rejected if the inbox cannot be absorbed; other commands are answered without it then. */
  readonly needsInbox?: true
  apply(ctx: CommandContext, input: I): R
  /**
   * What the journal stores of the input; nothing when absent. No secrets and no caller-supplied
   * structures.
   */
  note?(input: I): Record<string, unknown>
}

/** Stores the response under the caller's Idempotency-Key, in the commit of the command. */
export interface CommandIdempotency {
  readonly operation: string
  readonly key: string
  readonly hash: string
  readonly keyId: string | null
  /** Builds the response to store from the result of the command. */
  present(result: unknown): { status: number; body: unknown }
  /**
   * Receives the reason why the response is not stored, or null. Called again when the command runs
   * again.
   */
  stored?(reason: UnstoredResponseReason | null): void
}

/** Another node answered this Idempotency-Key first. `stored` is its response. */
export class IdempotencyKeyAnsweredElsewhereError extends Error {
  readonly stored: IdempotentResponse
  constructor(stored: IdempotentResponse) {
    super('this Idempotency-Key has been answered already')
    this.stored = stored
  }
}

export interface AggregateCommandOptions {
  /** Actors that may be archived and out of memory. They are loaded before the command runs. */
  readonly touch?: readonly { readonly kind: ActorKind; readonly id: string }[]
  readonly receipt?: CommandIdempotency
  /**
   * The caller's Idempotency-Key, looked up again when another node may have answered it. A key
   * that only a written row names is looked up after that row conflicts.
   */
  readonly key?: string | undefined
  /** Start of that look-up (`clock.mono()`). A state read later may include a newer response. */
  readonly lookedUpAt?: number | undefined
  /** The id is new: there is nothing to load. */
  readonly fresh?: true
}

export interface ActorSystem {
  /**
   * Runs a command in its aggregate, in order, and resolves after COMMIT. Rejects with the
   * ServiceError of a rejection, `overloaded` when the mailbox is full, `unavailable` when the
   * database does not answer in time.
   */
  ask<I, R>(
    id: string,
    command: AggregateCommand<I, R>,
    input: I,
    options?: AggregateCommandOptions,
  ): Promise<R>
  /** Removes an in-memory hold at once, even during a database outage. */
  releaseHold(id: string, callId: string): void
}
