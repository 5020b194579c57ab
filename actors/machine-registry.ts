import type {
  AnyMachineSnapshot,
  AnyStateMachine,
  EventFrom,
  InputFrom,
  SnapshotFrom,
} from 'xstate'
import { isNonZeroLoan } from '../domain/fleet-loans.ts'
import { minMicros, ZERO, type Micros } from '../core/money.ts'
import { agentMachine } from '../machines/agent.ts'
import { backpackMachine } from '../machines/backpack.ts'
import { bountyMachine } from '../machines/bounty.ts'
import { creditDropMachine } from '../machines/credit-drop.ts'
import { fleetMachine } from '../machines/fleet.ts'
import { payerMachine } from '../machines/payer.ts'
import { dailyQuotaMachine } from '../machines/daily-quota.ts'
import { scheduleMachine } from '../machines/schedule.ts'
import { settlementMachine } from '../machines/settlement.ts'
import { entitlementsMachine } from '../machines/entitlements.ts'
import { taskSessionMachine } from '../machines/task-session.ts'
import { visitorMachine } from '../machines/visitor.ts'
import { hiveWatchListMachine } from '../machines/hive-watch-list.ts'

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

/** Version 2 of the agent: deposits, payments on other rails, a fleet and a referrer. */
function upcastAgentToV2({ value, context }: StoredMachineState): StoredMachineState {
  const { holds, ...rest } = context as { holds: Record<string, object> }
  const before = { external: ZERO, payment: null, drawn: ZERO }
  const entries = Object.entries(holds).map(([id, hold]) => [id, { ...hold, ...before }])
  const added = {
    pending: ZERO,
    firstDeposit: null,
    activated: false,
    referrer: null,
    fleetId: null,
  }
  return { value, context: { ...rest, holds: Object.fromEntries(entries), ...added } }
}

/** Version 3 of the agent: what a pool lends belongs to one call, promotional credits too. */
function upcastAgentToV3({ value, context }: StoredMachineState): StoredMachineState {
  const { holds, ...rest } = context as { holds: Record<string, AgentHoldV2> }
  const entries = Object.entries(holds).map(([id, { drawn, ...hold }]) => {
    return [id, { ...hold, lent: { promo: ZERO, cash: minMicros(drawn, hold.cash) } }]
  })
  return { value, context: { ...rest, holds: Object.fromEntries(entries) } }
}
interface AgentHoldV2 {
  readonly drawn: Micros
  readonly cash: Micros
}

/** Version 2 of the visitor: it counts the agents that join from it. */
const upcastVisitorToV2 = ({ value, context }: StoredMachineState): StoredMachineState => ({
  value,
  context: { ...(context as object), newcomers: { since: 0, agents: 0 } },
})

/** Version 2 of the task: the Backpack it belongs to. */
const upcastTaskToV2 = ({ value, context }: StoredMachineState): StoredMachineState => ({
  value,
  context: { ...(context as object), backpackId: null },
})

/** Version 2 of the quota: it counts the bytes of answers, too. */
const upcastQuotaToV2 = ({ value, context }: StoredMachineState): StoredMachineState => ({
  value,
  context: { ...(context as object), kept: 0 },
})

/** Version 2 of the settlement: a chain may undo it. */
const upcastSettlementToV2 = ({ value, context }: StoredMachineState): StoredMachineState => ({
  value,
  context: { ...(context as object), undone: 0, credited: false },
})

/** Version 3 of the settlement: it records the sender of its request; attempts are failures. */
const upcastSettlementToV3 = ({ value, context }: StoredMachineState): StoredMachineState => ({
  value,
  context: { ...(context as object), marks: null, attempts: 0 },
})

/** Version 2 of the schedule: enabled while a run is under way, it awaits its end. */
const upcastScheduleToV2 = ({ value, context }: StoredMachineState): StoredMachineState => ({
  value,
  context: { ...(context as object), late: [] },
})

/** Version 3 of the schedule: the Backpack its runs act in, and pauses that credits do not end. */
const upcastScheduleToV3 = ({ value, context }: StoredMachineState): StoredMachineState => ({
  value,
  context: { ...(context as object), backpackId: null, pausedFor: null },
})

/** Version 4 of the agent: the caps of a key for each UTC day and month, with what it has spent in them. */
const upcastAgentToV4 = ({ value, context }: StoredMachineState): StoredMachineState => ({
  value,
  context: { ...(context as object), keyWindows: {} },
})

/** Version 5 of the agent: a loan names the fleet that lent it, which the agent may have left. */
function upcastAgentToV5({ value, context }: StoredMachineState): StoredMachineState {
  const { holds, ...rest } = context as {
    holds: Record<string, AgentHoldV4>
    fleetId: string | null
  }
  const entries = Object.entries(holds).map(([id, { lent, ...hold }]) => {
    const loans = isNonZeroLoan(lent) ? [{ fleetId: rest.fleetId, ...lent }] : []
    return [id, { ...hold, loans }]
  })
  return { value, context: { ...rest, holds: Object.fromEntries(entries) } }
}
interface AgentHoldV4 {
  readonly lent: { readonly promo: Micros; readonly cash: Micros }
}

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
    version: 5,
    upcasters: {
      1: upcastAgentToV2,
      2: upcastAgentToV3,
      3: upcastAgentToV4,
      4: upcastAgentToV5,
    },
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
    version: 2,
    upcasters: { 1: upcastTaskToV2 },
    isArchived: (snapshot) => snapshot.value !== 'active' && snapshot.context.held === 0n,
  },
  schedule: {
    machine: scheduleMachine,
    version: 3,
    upcasters: { 1: upcastScheduleToV2, 2: upcastScheduleToV3 },
    isArchived: (snapshot) => snapshot.value === 'cancelled',
  },
  visitor: {
    machine: visitorMachine,
    version: 2,
    upcasters: { 1: upcastVisitorToV2 },
    isArchived: never,
  },
  payer: { machine: payerMachine, version: 1, upcasters: {}, isArchived: never },
  settlement: {
    machine: settlementMachine,
    version: 3,
    upcasters: { 1: upcastSettlementToV2, 2: upcastSettlementToV3 },
    isArchived: isSettlementArchived,
  },
  fleet: { machine: fleetMachine, version: 1, upcasters: {}, isArchived: never },
  drop: { machine: creditDropMachine, version: 1, upcasters: {}, isArchived: never },
  bounty: { machine: bountyMachine, version: 1, upcasters: {}, isArchived: never },
  watchList: { machine: hiveWatchListMachine, version: 1, upcasters: {}, isArchived: never },
  quota: {
    machine: dailyQuotaMachine,
    version: 2,
    upcasters: { 1: upcastQuotaToV2 },
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
