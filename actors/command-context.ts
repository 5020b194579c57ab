import type { AnyEventObject } from 'xstate'
import { stringifyWithBigints } from '../core/bigint-json.ts'
import { ServiceError, type ErrorCode } from '../core/errors.ts'
import type { DomainEvent, DomainEventType } from '../core/domain-events.ts'
import { newUuidV7 } from '../core/ids.ts'
import { toUsdc, type Micros } from '../core/money.ts'
import { assertLedgerMovement, movesPromoBetweenAgents } from '../domain/ledger-movements.ts'
import type { CallRow, InboxMessage, DurableTimer, LedgerTransfer } from '../core/commit-rows.ts'
import type { StoredActor } from '../persistence/stored-aggregate.ts'
import {
  actorKey,
  type ActorEntry,
  type ActorKey,
  type Aggregate,
  type InMemoryHoldChanges,
} from './in-memory-aggregate.ts'
import type { CommandContext } from './aggregate-command-types.ts'
import { machineRegistryEntry, type ActorKind } from './machine-registry.ts'
import { createMachineStepper, type MachineStep, type MachineStepper } from './machine-stepper.ts'

/** Everything a command changed, as data for one commit. */
export interface CommandEffects {
  readonly dirty: Map<ActorKey, ActorEntry>
  readonly transfers: (LedgerTransfer & { id: string; at: number })[]
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
  constructor(code: ErrorCode, details: Record<string, unknown>, facts: CommandEffects | null) {
    super(code, details)
    this.emittedEffects = facts
  }
}

export interface RecordingCommandContext extends CommandContext {
  readonly effects: CommandEffects
  readonly inMemoryHolds: InMemoryHoldChanges
  markAbsorbed(messageId: string): void
}

const steppers = new Map<ActorKind, MachineStepper>()
function stepperOf(kind: ActorKind): MachineStepper {
  const known = steppers.get(kind)
  if (known !== undefined) return known
  const made = createMachineStepper(machineRegistryEntry(kind).machine)
  steppers.set(kind, made)
  return made
}

/**
 * Starts a command over the aggregate's current state. The state changes only when the runtime
 * applies the effects.
 */
export function createCommandContext(
  aggregateId: string,
  aggregate: Aggregate,
  inMemoryHolds: InMemoryHoldChanges,
  now: number,
): RecordingCommandContext {
  const effects = createCommandEffects()
  let pagerOf: string | null = null

  const find = (kind: ActorKind, id: string): ActorEntry | undefined => {
    const key = actorKey(kind, id)
    return effects.dirty.get(key) ?? aggregate.actors.get(key)
  }
  const present = (kind: ActorKind, id: string): ActorEntry => {
    const entry = find(kind, id)
    if (entry === undefined) throw new Error(`${kind} ${id} is not in aggregate ${aggregateId}`)
    return entry
  }
  const keep = (kind: ActorKind, id: string, step: MachineStep, into: CommandEffects) => {
    const entry = { kind, id, snapshot: step.snapshot }
    into.dirty.set(actorKey(kind, id), entry)
    collectStepEffects(into, entry, step, { aggregateId, now, pagerOf })
    return entry.snapshot
  }
  const step = (kind: ActorKind, id: string, event: AnyEventObject) => {
    const before = present(kind, id).snapshot
    const taken = stepperOf(kind).step(before, event)
    const refusal = taken.actions.find((action) => action.type === 'refuse')
    if (refusal !== undefined) throw refuse(kind, id, taken, refusal.params)
    if (taken.snapshot === before && taken.actions.length === 0) return before
    return taken.snapshot.context === before.context && taken.snapshot.value === before.value
      ? (collectStepEffects(effects, { kind, id, snapshot: before }, taken, {
          aggregateId,
          now,
          pagerOf,
        }),
        before)
      : keep(kind, id, taken, effects)
  }
  const refuse = (
    kind: ActorKind,
    id: string,
    taken: MachineStep,
    params: unknown,
  ): CommandRejectedError => {
    const { code, ...details } = params as { code: ErrorCode }
    const facts = createCommandEffects()
    const emitsEvents = taken.actions.some((action) => action.type === 'xstate.emit')
    if (emitsEvents) keep(kind, id, taken, facts)
    return new CommandRejectedError(code, details, emitsEvents ? facts : null)
  }

  return {
    now,
    aggregateId,
    inMemoryHolds,
    effects,
    newId: () => newUuidV7(now),
    has: (kind, id) => find(kind, id) !== undefined,
    snapshotOf: (kind, id) => present(kind, id).snapshot as never,
    all(kind) {
      const keys = new Set([...aggregate.actors.keys(), ...effects.dirty.keys()])
      const entries = [...keys].flatMap((key) => {
        const entry = effects.dirty.get(key) ?? aggregate.actors.get(key)
        return entry?.kind === kind ? [{ id: entry.id, snapshot: entry.snapshot as never }] : []
      })
      return entries
    },
    create: (kind, id, input) => keep(kind, id, stepperOf(kind).initial(input), effects) as never,
    send: step as never,
    notifyPagerOf(backpackId) {
      pagerOf = backpackId
    },
    transfer(transfer) {
      assertLedgerMovement(transfer)
      const id = newUuidV7(now)
      effects.transfers.push({ ...transfer, id, at: now })
      if (movesPromoBetweenAgents(transfer)) {
        const row = { transfer_id: id, at: new Date(now).toISOString() }
        effects.rows.push({ table: 'promo_transfers', row })
      }
    },
    call: (row) => void effects.calls.push(row),
    inbox: (message) => void effects.inbox.push({ ...message, at: now }),
    event: (event) => void effects.events.push({ ...event, at: now }),
    row: (table, row) => void effects.rows.push({ table, row }),
    timer: (timer) => void effects.timers.set(timer.id, timer),
    cancelTimer: (id) => void effects.timers.set(id, null),
    markAbsorbed: (messageId) => void effects.absorbed.push(messageId),
  }
}

interface CommandScope {
  readonly aggregateId: string
  readonly now: number
  readonly pagerOf: string | null
}

/** Actions that a machine may use. `accept` has no effect. */
export const SUPPORTED_MACHINE_ACTIONS: ReadonlySet<string> = new Set([
  'refuse',
  'accept',
  'xstate.emit',
  'xstate.raise',
  'xstate.cancel',
])

/** Turns the actions of a step into effects, in order: re-entering a state cancels, then raises. */
function collectStepEffects(
  into: CommandEffects,
  actor: ActorEntry,
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
    } else if (!SUPPORTED_MACHINE_ACTIONS.has(type)) {
      throw new Error(`${actor.kind} uses the unsupported action ${type}`)
    }
  }
}

const actorTimerId = (actor: ActorEntry, id: string) => `${actor.kind}:${actor.id}:${id}`

/** The stored form of an emitted event: snake_case, amounts as USDC numbers. */
function toDomainEvent(
  emitted: AnyEventObject,
  actor: ActorEntry,
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

/** The changed actors as JSON for the journal. */
export const serializeChangedActors = (stored: readonly StoredActor[]): string =>
  `[${stored.map(({ kind, id, state }) => `{"kind":"${kind}","id":${JSON.stringify(id)},"state":${state}}`).join(',')}]`

/** The command as JSON for the journal. */
export const serializeCommand = (name: string, note: Record<string, unknown> | undefined): string =>
  stringifyWithBigints(note === undefined ? { name } : { name, input: note })
