import type { AnyStateMachine, EventFrom, InputFrom, SnapshotFrom } from 'xstate'
import { agentMachine } from '../machines/agent-machine.ts'
import { backpackMachine } from '../machines/backpack-machine.ts'
import { bountyMachine } from '../machines/bounty-machine.ts'
import { communityToolMachine } from '../machines/community-tool-machine.ts'
import { creditDropMachine } from '../machines/credit-drop-machine.ts'
import { dailyQuotaReducer } from '../machines/daily-quota-reducer.ts'
import { entitlementsReducer } from '../machines/lifetime-entitlements-reducer.ts'
import { fleetPoolReducer } from '../machines/fleet-pool-reducer.ts'
import { hiveWatchListReducer } from '../machines/hive-watch-list-reducer.ts'
import { memoryListingMachine } from '../machines/memory-listing-machine.ts'
import { payerMachine } from '../machines/payer-machine.ts'
import {
  toReducerSnapshot,
  type AnyReducer,
  type ReducerContext,
  type ReducerEventOf,
  type ReducerInput,
  type ReducerSnapshot,
} from '../machines/aggregate-reducer.ts'
import { scheduleMachine } from '../machines/schedule-machine.ts'
import { settlementMachine } from '../machines/settlement-machine.ts'
import { taskPassesReducer } from '../machines/task-passes-reducer.ts'
import { taskSessionMachine } from '../machines/task-session-machine.ts'
import { visitorFreeAllowanceReducer } from '../machines/visitor-free-allowance-reducer.ts'
import {
  createMachineStepper,
  type MachineStepper,
  type MachineOrReducerSnapshot,
} from './pure-machine-transition.ts'
import { createReducerStepper } from './reducer-stepper.ts'

/** The stored form of a snapshot: the input of `machine.resolveState`. */
export interface StoredMachineState {
  value: unknown
  context: unknown
}

interface ActorLogic {
  /** Increases when context or states change. Stored with each snapshot. */
  readonly version: number
  /** Upcasters from version n to n + 1. */
  readonly upcasters: Readonly<Record<number, (state: StoredMachineState) => StoredMachineState>>
  /** When its timers were last set. Older timers that were read before must not fire. */
  readonly timersSetAt?: (context: never) => number
  /** True while an ended actor still waits for something. */
  readonly hasOpenWork?: (snapshot: never) => boolean
  /** The actor that its aggregate exists for: it is loaded whenever the aggregate is. */
  readonly isOwnAggregate?: true
}

interface MachineRegistryEntry extends ActorLogic {
  readonly type: 'machine'
  readonly machine: AnyStateMachine
}

/** An actor without states. */
interface ReducerRegistryEntry extends ActorLogic {
  readonly type: 'reducer'
  readonly reducer: AnyReducer
}

/** An ended payment is open while its call may still change, or the chain is looked at again. */
function hasOpenPaymentWork({ value, context }: SnapshotFrom<typeof settlementMachine>): boolean {
  const { money, delivery } = value
  if (money === 'settled') return delivery === 'waiting'
  return money === 'released' ? context.runner !== null : context.lookAt !== null
}

/** All actor kinds. A new machine adds one entry here. */
export const machineRegistry = {
  agent: { type: 'machine', machine: agentMachine, version: 1, upcasters: {} },
  backpack: {
    type: 'machine',
    machine: backpackMachine,
    version: 1,
    upcasters: {},
    timersSetAt: (context: { readonly seenAt: number }) => context.seenAt,
  },
  taskSession: {
    type: 'machine',
    machine: taskSessionMachine,
    version: 1,
    upcasters: {},
    hasOpenWork: ({ context }: SnapshotFrom<typeof taskSessionMachine>) => context.held !== 0n,
  },
  schedule: { type: 'machine', machine: scheduleMachine, version: 1, upcasters: {} },
  visitor: { type: 'reducer', reducer: visitorFreeAllowanceReducer, version: 1, upcasters: {} },
  payer: { type: 'machine', machine: payerMachine, version: 1, upcasters: {} },
  settlement: {
    type: 'machine',
    machine: settlementMachine,
    version: 1,
    upcasters: {},
    hasOpenWork: hasOpenPaymentWork,
  },
  fleet: { type: 'reducer', reducer: fleetPoolReducer, version: 1, upcasters: {} },
  drop: {
    type: 'machine',
    machine: creditDropMachine,
    version: 1,
    upcasters: {},
    isOwnAggregate: true,
  },
  bounty: {
    type: 'machine',
    machine: bountyMachine,
    version: 1,
    upcasters: {},
    isOwnAggregate: true,
  },
  tool: {
    type: 'machine',
    machine: communityToolMachine,
    version: 1,
    upcasters: {},
    isOwnAggregate: true,
  },
  listing: {
    type: 'machine',
    machine: memoryListingMachine,
    version: 1,
    upcasters: {},
    isOwnAggregate: true,
  },
  watchList: { type: 'reducer', reducer: hiveWatchListReducer, version: 1, upcasters: {} },
  quota: { type: 'reducer', reducer: dailyQuotaReducer, version: 1, upcasters: {} },
  taskPasses: { type: 'reducer', reducer: taskPassesReducer, version: 1, upcasters: {} },
  tally: { type: 'reducer', reducer: entitlementsReducer, version: 1, upcasters: {} },
} as const satisfies Record<string, MachineRegistryEntry | ReducerRegistryEntry>

export type ActorKind = keyof typeof machineRegistry
type LogicOf<K extends ActorKind> = (typeof machineRegistry)[K]

type SnapshotOf<L> = L extends { reducer: infer R extends AnyReducer }
  ? ReducerSnapshot<ReducerContext<R>>
  : L extends { machine: infer M extends AnyStateMachine }
    ? SnapshotFrom<M>
    : never
type EventOf<L> = L extends { reducer: infer R extends AnyReducer }
  ? ReducerEventOf<R>
  : L extends { machine: infer M extends AnyStateMachine }
    ? EventFrom<M>
    : never
type InputOf<L> = L extends { reducer: infer R extends AnyReducer }
  ? ReducerInput<R>
  : L extends { machine: infer M extends AnyStateMachine }
    ? InputFrom<M>
    : never

export type ActorSnapshot<K extends ActorKind> = SnapshotOf<LogicOf<K>>
export type ActorMachineEvent<K extends ActorKind> = EventOf<LogicOf<K>>
export type ActorInput<K extends ActorKind> = InputOf<LogicOf<K>>

export const isActorKind = (kind: string): kind is ActorKind => Object.hasOwn(machineRegistry, kind)
export const machineRegistryEntry = (
  kind: ActorKind,
): MachineRegistryEntry | ReducerRegistryEntry => machineRegistry[kind]

/** True when the actor has ended with nothing open: stays in Postgres, not loaded by default. */
export function isArchivedActor(kind: ActorKind, snapshot: MachineOrReducerSnapshot): boolean {
  if (!snapshot.tags.has('ended')) return false
  const { isOwnAggregate = false, hasOpenWork } = machineRegistryEntry(kind)
  return !isOwnAggregate && hasOpenWork?.(snapshot as never) !== true
}

/** The snapshot of a stored state. Throws for a state that the machine does not have. */
export function resolveActorState(
  kind: ActorKind,
  state: StoredMachineState,
): MachineOrReducerSnapshot {
  const entry = machineRegistryEntry(kind)
  return entry.type === 'reducer'
    ? toReducerSnapshot(state.context)
    : entry.machine.resolveState(state as never)
}

const steppers = new Map<ActorKind, MachineStepper>()
/** The stepper of a kind of actor, made once. */
export function getMachineStepperOfActorKind(kind: ActorKind): MachineStepper {
  const known = steppers.get(kind)
  if (known !== undefined) return known
  const entry = machineRegistryEntry(kind)
  const made =
    entry.type === 'reducer'
      ? createReducerStepper(entry.reducer)
      : createMachineStepper(entry.machine)
  steppers.set(kind, made)
  return made
}
