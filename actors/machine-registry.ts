import type {
  AnyMachineSnapshot,
  AnyStateMachine,
  EventFrom,
  InputFrom,
  SnapshotFrom,
} from 'xstate'
import { agentMachine } from '../machines/agent-machine.ts'
import { backpackMachine } from '../machines/backpack-machine.ts'
import { bountyMachine } from '../machines/bounty-machine.ts'
import { creditDropMachine } from '../machines/credit-drop-machine.ts'
import { fleetMachine } from '../machines/fleet-machine.ts'
import { payerMachine } from '../machines/payer-machine.ts'
import { dailyQuotaMachine } from '../machines/daily-quota-machine.ts'
import { scheduleMachine } from '../machines/schedule-machine.ts'
import { settlementMachine } from '../machines/settlement-machine.ts'
import { entitlementsMachine } from '../machines/entitlements-machine.ts'
import { taskSessionMachine } from '../machines/task-session-machine.ts'
import { visitorMachine } from '../machines/visitor-machine.ts'
import { hiveWatchListMachine } from '../machines/hive-watch-list-machine.ts'

/** The stored form of a snapshot: the input of `machine.resolveState`. */
export interface StoredMachineState {
  value: unknown
  context: unknown
}

interface MachineRegistryEntry {
  readonly machine: AnyStateMachine
  /** Increases when context or states change. Stored with each snapshot. */
  readonly version: number
  /** Upcasters from version n to n + 1. */
  readonly upcasters: Readonly<Record<number, (state: StoredMachineState) => StoredMachineState>>
  /** True when the actor has ended with nothing open: stays in Postgres, not loaded by default. */
  readonly isArchived: (snapshot: AnyMachineSnapshot) => boolean
  /** When its timers were last set. Older timers that were read before must not fire. */
  readonly timersSetAt?: (snapshot: AnyMachineSnapshot) => number
}

const never = () => false

/** True when neither the payment nor the call can change any more. */
function isSettlementArchived({ value, context }: AnyMachineSnapshot): boolean {
  const { money, delivery } = value as { money: string; delivery: string }
  if (money === 'settled') return delivery !== 'waiting'
  return (
    (money === 'released' && context.runner === null) ||
    (money === 'lost' && context.lookAt === null)
  )
}

/** All actor kinds. A new machine adds one entry here. */
export const machineRegistry = {
  agent: {
    machine: agentMachine,
    version: 1,
    upcasters: {},
    isArchived: never,
  },
  backpack: {
    machine: backpackMachine,
    version: 1,
    upcasters: {},
    isArchived: (snapshot) => snapshot.value === 'revoked',
    timersSetAt: (snapshot) => snapshot.context.seenAt,
  },
  taskSession: {
    machine: taskSessionMachine,
    version: 1,
    upcasters: {},
    isArchived: (snapshot) => snapshot.value !== 'active' && snapshot.context.held === 0n,
  },
  schedule: {
    machine: scheduleMachine,
    version: 1,
    upcasters: {},
    isArchived: (snapshot) => snapshot.value === 'cancelled',
  },
  visitor: {
    machine: visitorMachine,
    version: 1,
    upcasters: {},
    isArchived: never,
  },
  payer: { machine: payerMachine, version: 1, upcasters: {}, isArchived: never },
  settlement: {
    machine: settlementMachine,
    version: 1,
    upcasters: {},
    isArchived: isSettlementArchived,
  },
  fleet: { machine: fleetMachine, version: 1, upcasters: {}, isArchived: never },
  drop: { machine: creditDropMachine, version: 1, upcasters: {}, isArchived: never },
  bounty: { machine: bountyMachine, version: 1, upcasters: {}, isArchived: never },
  watchList: { machine: hiveWatchListMachine, version: 1, upcasters: {}, isArchived: never },
  quota: {
    machine: dailyQuotaMachine,
    version: 1,
    upcasters: {},
    isArchived: never,
  },
  tally: { machine: entitlementsMachine, version: 1, upcasters: {}, isArchived: never },
} as const satisfies Record<string, MachineRegistryEntry>

export type ActorKind = keyof typeof machineRegistry
type MachineOf<K extends ActorKind> = (typeof machineRegistry)[K]['machine']
export type ActorSnapshot<K extends ActorKind> = SnapshotFrom<MachineOf<K>>
export type ActorMachineEvent<K extends ActorKind> = EventFrom<MachineOf<K>>
export type ActorInput<K extends ActorKind> = InputFrom<MachineOf<K>>

export const isActorKind = (kind: string): kind is ActorKind => Object.hasOwn(machineRegistry, kind)
export const machineRegistryEntry = (kind: ActorKind): MachineRegistryEntry => machineRegistry[kind]
