import type {
  AnyMachineSnapshot,
  AnyStateMachine,
  EventFrom,
  InputFrom,
  SnapshotFrom,
} from 'xstate'
import { agent } from '../machines/agent.ts'
import { backpack } from '../machines/backpack.ts'
import { taskSession } from '../machines/task-session.ts'
import { visitor } from '../machines/visitor.ts'

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

/** Every kind of actor. A new machine is one line here. */
export const registry = {
  agent: { machine: agent, version: 1, upcasters: {}, atRest: never },
  backpack: {
    machine: backpack,
    version: 1,
    upcasters: {},
    atRest: (snapshot) => snapshot.value === 'revoked',
    timersSetAt: (snapshot) => snapshot.context.seenAt,
  },
  taskSession: {
    machine: taskSession,
    version: 1,
    upcasters: {},
    atRest: (snapshot) => snapshot.value !== 'active' && snapshot.context.held === 0n,
  },
  visitor: { machine: visitor, version: 1, upcasters: {}, atRest: never },
} as const satisfies Record<string, Entry>

export type ActorKind = keyof typeof registry
type MachineOf<K extends ActorKind> = (typeof registry)[K]['machine']
export type SnapshotOf<K extends ActorKind> = SnapshotFrom<MachineOf<K>>
export type EventOf<K extends ActorKind> = EventFrom<MachineOf<K>>
export type InputOf<K extends ActorKind> = InputFrom<MachineOf<K>>

export const isActorKind = (kind: string): kind is ActorKind => Object.hasOwn(registry, kind)
export const entryOf = (kind: ActorKind): Entry => registry[kind]
