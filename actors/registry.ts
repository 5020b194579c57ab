import type {
  AnyMachineSnapshot,
  AnyStateMachine,
  EventFrom,
  InputFrom,
  SnapshotFrom,
} from 'xstate'
import { isLent } from '../core/loans.ts'
import { least, ZERO, type Micros } from '../core/money.ts'
import { agent } from '../machines/agent.ts'
import { backpack } from '../machines/backpack.ts'
import { bounty } from '../machines/bounty.ts'
import { drop } from '../machines/drop.ts'
import { fleet } from '../machines/fleet.ts'
import { payer } from '../machines/payer.ts'
import { quota } from '../machines/quota.ts'
import { schedule } from '../machines/schedule.ts'
import { settlement } from '../machines/settlement.ts'
import { tally } from '../machines/tally.ts'
import { taskSession } from '../machines/task-session.ts'
import { visitor } from '../machines/visitor.ts'
import { watchList } from '../machines/watch-list.ts'

/** The stored form of a snapshot: what `machine.resolveState` needs, and nothing else. */
export interface State {
  value: unknown
  context: unknown
}

interface Entry {
  readonly machine: AnyStateMachine
  /** Raised whenever context or states change; snapshots carry it. */
  readonly version: number
  /** From version n to n + 1. */
  readonly upcasters: Readonly<Record<number, (state: State) => State>>
  /** Ended with nothing open: kept in Postgres, not loaded by default. */
  readonly atRest: (snapshot: AnyMachineSnapshot) => boolean
  /** When its timers were last set: an older one that was read before fires for nothing. */
  readonly timersSetAt?: (snapshot: AnyMachineSnapshot) => number
}

const never = () => false

/** Version 2 of the agent: deposits, payments on other rails, a fleet and a referrer. */
function agentWithDeposits({ value, context }: State): State {
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
function agentWithLoans({ value, context }: State): State {
  const { holds, ...rest } = context as { holds: Record<string, LoanBefore> }
  const entries = Object.entries(holds).map(([id, { drawn, ...hold }]) => {
    return [id, { ...hold, lent: { promo: ZERO, cash: least(drawn, hold.cash) } }]
  })
  return { value, context: { ...rest, holds: Object.fromEntries(entries) } }
}
interface LoanBefore {
  readonly drawn: Micros
  readonly cash: Micros
}

/** Version 2 of the visitor: it counts the agents that join from it. */
const visitorWithNewcomers = ({ value, context }: State): State => ({
  value,
  context: { ...(context as object), newcomers: { since: 0, agents: 0 } },
})

/** Version 2 of the task: the Backpack it belongs to. */
const taskInBackpack = ({ value, context }: State): State => ({
  value,
  context: { ...(context as object), backpackId: null },
})

/** Version 2 of the quota: it counts the bytes of answers, too. */
const quotaWithKept = ({ value, context }: State): State => ({
  value,
  context: { ...(context as object), kept: 0 },
})

/** Version 2 of the settlement: a chain may undo it. */
const settlementToUndo = ({ value, context }: State): State => ({
  value,
  context: { ...(context as object), undone: 0, credited: false },
})

/** Version 3 of the settlement: whoever sent its request is known again; attempts are failures. */
const settlementWithMarks = ({ value, context }: State): State => ({
  value,
  context: { ...(context as object), marks: null, attempts: 0 },
})

/** Version 2 of the schedule: enabled while a run is under way, it awaits its end. */
const scheduleWithLate = ({ value, context }: State): State => ({
  value,
  context: { ...(context as object), late: [] },
})

/** Version 3 of the schedule: the Backpack its runs act in, and pauses that credits do not end. */
const scheduleInBackpack = ({ value, context }: State): State => ({
  value,
  context: { ...(context as object), backpackId: null, pausedFor: null },
})

/** Version 4 of the agent: the caps of a key for each UTC day and month, with what it has spent in them. */
const agentWithKeyWindows = ({ value, context }: State): State => ({
  value,
  context: { ...(context as object), keyWindows: {} },
})

/** Version 5 of the agent: a loan names the fleet that lent it, which the agent may have left. */
function agentWithLenders({ value, context }: State): State {
  const { holds, ...rest } = context as {
    holds: Record<string, LentBefore>
    fleetId: string | null
  }
  const entries = Object.entries(holds).map(([id, { lent, ...hold }]) => {
    const loans = isLent(lent) ? [{ fleetId: rest.fleetId, ...lent }] : []
    return [id, { ...hold, loans }]
  })
  return { value, context: { ...rest, holds: Object.fromEntries(entries) } }
}
interface LentBefore {
  readonly lent: { readonly promo: Micros; readonly cash: Micros }
}

/** Nothing more is expected of its money nor of its call. */
function isSettled({ value, context }: AnyMachineSnapshot): boolean {
  const { money, delivery } = value as { money: string; delivery: string }
  if (money === 'settled') return delivery !== 'waiting'
  return (
    (money === 'released' && context.runner === null) ||
    (money === 'lost' && context.lookAt === null)
  )
}

/** Every kind of actor. A new machine is one line here. */
export const registry = {
  agent: {
    machine: agent,
    version: 5,
    upcasters: {
      1: agentWithDeposits,
      2: agentWithLoans,
      3: agentWithKeyWindows,
      4: agentWithLenders,
    },
    atRest: never,
  },
  backpack: {
    machine: backpack,
    version: 1,
    upcasters: {},
    atRest: (snapshot) => snapshot.value === 'revoked',
    timersSetAt: (snapshot) => snapshot.context.seenAt,
  },
  taskSession: {
    machine: taskSession,
    version: 2,
    upcasters: { 1: taskInBackpack },
    atRest: (snapshot) => snapshot.value !== 'active' && snapshot.context.held === 0n,
  },
  schedule: {
    machine: schedule,
    version: 3,
    upcasters: { 1: scheduleWithLate, 2: scheduleInBackpack },
    atRest: (snapshot) => snapshot.value === 'cancelled',
  },
  visitor: { machine: visitor, version: 2, upcasters: { 1: visitorWithNewcomers }, atRest: never },
  payer: { machine: payer, version: 1, upcasters: {}, atRest: never },
  settlement: {
    machine: settlement,
    version: 3,
    upcasters: { 1: settlementToUndo, 2: settlementWithMarks },
    atRest: isSettled,
  },
  fleet: { machine: fleet, version: 1, upcasters: {}, atRest: never },
  drop: { machine: drop, version: 1, upcasters: {}, atRest: never },
  bounty: { machine: bounty, version: 1, upcasters: {}, atRest: never },
  watchList: { machine: watchList, version: 1, upcasters: {}, atRest: never },
  quota: { machine: quota, version: 2, upcasters: { 1: quotaWithKept }, atRest: never },
  tally: { machine: tally, version: 1, upcasters: {}, atRest: never },
} as const satisfies Record<string, Entry>

export type ActorKind = keyof typeof registry
type MachineOf<K extends ActorKind> = (typeof registry)[K]['machine']
export type SnapshotOf<K extends ActorKind> = SnapshotFrom<MachineOf<K>>
export type EventOf<K extends ActorKind> = EventFrom<MachineOf<K>>
export type InputOf<K extends ActorKind> = InputFrom<MachineOf<K>>

export const isActorKind = (kind: string): kind is ActorKind => Object.hasOwn(registry, kind)
export const entryOf = (kind: ActorKind): Entry => registry[kind]
