import type { AnyEventObject } from 'xstate'
import { stringifyWithBigints } from '../core/json/bigint.ts'
import { ServiceError, type ErrorCode } from '../core/errors.ts'
import type { DomainEvent, DomainEventType } from '../core/domain-events.ts'
import { newUuidV7 } from '../core/ids-and-api-keys.ts'
import { toUsdc, type Micros } from '../core/money.ts'
import type { MachineEventRejection } from '../machines/machine-event-rejection.ts'
import {
  assertLedgerMovementPermitted,
  movesPromoBetweenAgents,
} from '../domain/ledger-movements.ts'
import { toCallPriceMovements } from '../domain/call-price-ledger-movements.ts'
import type {
  CallPriceWithoutAgentShares,
  CallRow,
  InboxMessage,
  DurableTimer,
  LedgerTransfer,
} from '../core/aggregate-commit-row-types.ts'
import {
  actorKey,
  type LoadedActor,
  type ActorKey,
  type LoadedAggregateActors,
  type InMemoryHoldChanges,
} from './loaded-aggregate-state.ts'
import type { CommandContext } from './aggregate-command-types.ts'
import { recordActorStep } from './inspection/record-actor-step.ts'
import type { RecordedActorStep } from './inspection/command-recorder.ts'
import {
  machineRegistryEntry,
  getMachineStepperOfActorKind,
  type ActorKind,
} from './machine-registry.ts'
import type { MachineStep, MachineOrReducerSnapshot } from './pure-machine-transition.ts'

/** Everything a command changed, as data for one commit. */
export interface CommandEffects {
  readonly dirty: Map<ActorKey, LoadedActor>
  readonly transfers: (LedgerTransfer & { id: string; at: number })[]
  readonly prices: (CallPriceWithoutAgentShares & { id: string; at: number })[]
  readonly calls: CallRow[]
  readonly inbox: (InboxMessage & { at: number })[]
  readonly absorbed: string[]
  readonly events: (DomainEvent & { at: number })[]
  readonly timers: Map<string, DurableTimer | null>
  readonly rows: { table: string; row: Record<string, unknown> }[]
}

const createCommandEffects = (): CommandEffects => ({
  dirty: new Map(),
  transfers: [],
  prices: [],
  calls: [],
  inbox: [],
  absorbed: [],
  events: [],
  timers: new Map(),
  rows: [],
})

export const hasNoEffects = (effects: CommandEffects): boolean =>
  effects.dirty.size === 0 &&
  effects.transfers.length === 0 &&
  effects.prices.length === 0 &&
  effects.calls.length === 0 &&
  effects.inbox.length === 0 &&
  effects.absorbed.length === 0 &&
  effects.events.length === 0 &&
  effects.timers.size === 0 &&
  effects.rows.length === 0

/**
 * A rejection by a machine. If the transition emitted events, only `emittedEffects` are committed.
 */
export class CommandRejectedError extends ServiceError {
  readonly emittedEffects: CommandEffects | null
  readonly rejected: RejectedStep
  constructor(
    code: ErrorCode,
    details: Record<string, unknown>,
    facts: CommandEffects | null,
    rejected: RejectedStep,
  ) {
    super(code, details)
    this.emittedEffects = facts
    this.rejected = rejected
  }
}

/** The event that an actor rejected, and the actor as it was. */
export interface RejectedStep {
  readonly actor: LoadedActor
  readonly aggregateId: string
  readonly event: AnyEventObject
  /** Milliseconds. */
  readonly at: number
}

export interface CommandContextWithEffects extends CommandContext {
  readonly effects: CommandEffects
  readonly inMemoryHolds: InMemoryHoldChanges
  markAbsorbed(messageId: string): void
}

/**
 * Starts a command over the aggregate's current state. The state changes only when the runtime
 * applies the effects.
 */
export const createCommandContext = (
  aggregateId: string,
  aggregate: LoadedAggregateActors,
  inMemoryHolds: InMemoryHoldChanges,
  now: number,
  recorded: RecordedActorStep[] | null = null,
): CommandContextWithEffects =>
  new CommandOverAggregate(aggregateId, aggregate, inMemoryHolds, now, recorded)

interface CommandScope {
  readonly aggregateId: string
  readonly now: number
  readonly pagerOf: string | null
}

/** A class, since every call makes one: closures would be made anew for each. */
class CommandOverAggregate implements CommandContextWithEffects, CommandScope {
  readonly aggregateId: string
  readonly now: number
  readonly inMemoryHolds: InMemoryHoldChanges
  readonly recorded: RecordedActorStep[] | null
  readonly effects: CommandEffects
  readonly #aggregate: LoadedAggregateActors
  pagerOf: string | null

  constructor(
    aggregateId: string,
    aggregate: LoadedAggregateActors,
    inMemoryHolds: InMemoryHoldChanges,
    now: number,
    recorded: RecordedActorStep[] | null,
  ) {
    this.aggregateId = aggregateId
    this.now = now
    this.inMemoryHolds = inMemoryHolds
    this.recorded = recorded
    this.effects = createCommandEffects()
    this.#aggregate = aggregate
    this.pagerOf = null
  }

  newId(): string {
    return newUuidV7(this.now)
  }

  has(kind: ActorKind, id: string): boolean {
    return this.#find(actorKey(kind, id)) !== undefined
  }

  snapshotOf(kind: ActorKind, id: string): never {
    return this.#present(kind, id).snapshot as never
  }

  all(kind: ActorKind): { id: string; snapshot: never }[] {
    const found: { id: string; snapshot: never }[] = []
    const add = ({ id, snapshot, kind: its }: LoadedActor) => {
      if (its === kind) found.push({ id, snapshot: snapshot as never })
    }
    const { dirty } = this.effects
    for (const [key, entry] of this.#aggregate.actors) add(dirty.get(key) ?? entry)
    for (const [key, entry] of dirty) if (!this.#aggregate.actors.has(key)) add(entry)
    return found
  }

  create(kind: ActorKind, id: string, input: unknown): never {
    const step = getMachineStepperOfActorKind(kind).initial(input)
    const { snapshot } = step
    const event = { type: 'xstate.init', input }
    this.recorded?.push({
      ...{ kind, id, aggregateId: this.aggregateId, event, snapshot, edges: [] },
      ...{ refused: null, isNew: true },
    })
    return this.#keep(kind, id, step, this.effects) as never
  }

  send(kind: ActorKind, id: string, event: AnyEventObject): never {
    const entry = this.#present(kind, id)
    const before = entry.snapshot
    const taken =
      this.recorded === null
        ? getMachineStepperOfActorKind(kind).step(before, event)
        : recordActorStep(this.recorded, entry, this.aggregateId, event)
    if (taken.rejected !== null) throw this.#refuse(entry, event, taken, taken.rejected)
    const { snapshot, actions } = taken
    if (snapshot === before && actions.length === 0) return before as never
    if (snapshot.context !== before.context || snapshot.value !== before.value)
      return this.#keep(kind, id, taken, this.effects) as never
    collectStepEffects(this.effects, entry, taken, this)
    return before as never
  }

  notifyPagerOf(backpackId: string): void {
    this.pagerOf = backpackId
  }

  transfer(transfer: LedgerTransfer): void {
    assertLedgerMovementPermitted(transfer)
    const { now } = this
    const id = newUuidV7(now)
    this.effects.transfers.push({ ...transfer, id, at: now })
    if (movesPromoBetweenAgents(transfer)) {
      const row = { transfer_id: id, at: new Date(now).toISOString() }
      this.row('promo_transfers', row)
    }
  }

  price(price: CallPriceWithoutAgentShares): void {
    for (const movement of toCallPriceMovements(this.aggregateId, price))
      assertLedgerMovementPermitted(movement)
    this.effects.prices.push({ ...price, id: newUuidV7(this.now), at: this.now })
  }

  call(row: CallRow): void {
    this.effects.calls.push(row)
  }

  inbox(message: InboxMessage): void {
    this.effects.inbox.push({ ...message, at: this.now })
  }

  event(event: DomainEvent): void {
    this.effects.events.push({ ...event, at: this.now })
  }

  row(table: string, row: Record<string, unknown>): void {
    this.effects.rows.push({ table, row })
  }

  timer(timer: DurableTimer): void {
    this.effects.timers.set(timer.id, timer)
  }

  cancelTimer(id: string): void {
    this.effects.timers.set(id, null)
  }

  markAbsorbed(messageId: string): void {
    this.effects.absorbed.push(messageId)
  }

  #find(key: ActorKey): LoadedActor | undefined {
    return this.effects.dirty.get(key) ?? this.#aggregate.actors.get(key)
  }

  #present(kind: ActorKind, id: string): LoadedActor {
    const entry = this.#find(actorKey(kind, id))
    if (entry === undefined)
      throw new Error(`${kind} ${id} is not in aggregate ${this.aggregateId}`)
    return entry
  }

  #keep(
    kind: ActorKind,
    id: string,
    step: MachineStep,
    into: CommandEffects,
  ): MachineOrReducerSnapshot {
    const { version: machineVersion } = machineRegistryEntry(kind)
    const { snapshot } = step
    const entry: LoadedActor = {
      kind,
      id,
      snapshot,
      machineVersion,
      fullStateAt: null,
      maxChars: 0,
    }
    into.dirty.set(actorKey(kind, id), entry)
    collectStepEffects(into, entry, step, this)
    return snapshot
  }

  #refuse(
    actor: LoadedActor,
    event: AnyEventObject,
    taken: MachineStep,
    { code, ...details }: MachineEventRejection,
  ): CommandRejectedError {
    const { kind, id } = actor
    const facts = createCommandEffects()
    const emitsEvents = taken.actions.some((action) => action.type === 'xstate.emit')
    if (emitsEvents) this.#keep(kind, id, taken, facts)
    const rejected = { actor, aggregateId: this.aggregateId, event, at: this.now }
    return new CommandRejectedError(code, details, emitsEvents ? facts : null, rejected)
  }
}

/** Actions that a step may return. */
export const SUPPORTED_XSTATE_ACTIONS: ReadonlySet<string> = new Set([
  'xstate.emit',
  'xstate.raise',
  'xstate.cancel',
])

/** Turns the actions of a step into effects, in order: re-entering a state cancels, then raises. */
function collectStepEffects(
  into: CommandEffects,
  actor: LoadedActor,
  step: MachineStep,
  at: CommandScope,
): void {
  for (const { type, params } of step.actions) {
    if (type === 'xstate.emit') {
      into.events.push(toDomainEvent((params as { event: AnyEventObject }).event, actor, at))
    } else if (type === 'xstate.raise') {
      const { delay, id, event } = params as { delay?: number; id?: string; event: AnyEventObject }
      // Without a delay the event was already handled in this macrostep.
      if (delay === undefined || id === undefined) continue
      const timer = actorTimerId(actor, id)
      const { kind, id: of } = actor
      const input = { kind, id: of, event, timer, setAt: at.now, touch: [{ kind, id: of }] }
      into.timers.set(timer, { id: timer, dueAt: at.now + delay, command: 'actor.event', input })
    } else if (type === 'xstate.cancel') {
      into.timers.set(actorTimerId(actor, (params as { sendId: string }).sendId), null)
    } else if (!SUPPORTED_XSTATE_ACTIONS.has(type)) {
      throw new Error(`${actor.kind} uses the unsupported action ${type}`)
    }
  }
}

const actorTimerId = (actor: LoadedActor, id: string) => `${actor.kind}:${actor.id}:${id}`

/** The stored form of an emitted event: snake_case, amounts as USDC numbers. */
function toDomainEvent(
  emitted: AnyEventObject,
  actor: LoadedActor,
  at: CommandScope,
): DomainEvent & { at: number } {
  const { type, ...fields } = emitted
  const data: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    if (typeof value === 'bigint') data[`${snake}_usdc`] = toUsdc(value as Micros)
    else data[snake] = value
  }
  const backpackId = actor.kind === 'backpack' ? actor.id : at.pagerOf
  if (backpackId !== null) data['backpack_id'] = backpackId
  return { type: type as DomainEventType, to: at.aggregateId, backpackId, data, at: at.now }
}

/** The command as JSON for the journal. */
export const serializeCommandForJournal = (
  name: string,
  note: Record<string, unknown> | undefined,
): string => stringifyWithBigints(note === undefined ? { name } : { name, input: note })
