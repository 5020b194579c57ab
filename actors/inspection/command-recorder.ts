import type { AnyEventObject } from 'xstate'
import type { ErrorCode } from '../../core/errors.ts'
import type { AggregateKind } from '../../core/aggregate-commit-row-types.ts'
import type { ActorState } from '../../core/journal-actor-state-delta.ts'
import type { ActorKind } from '../machine-registry.ts'

/** What the inspector is told of a command: its steps, in order. Recorded only while somebody watches. */

/** One event to one machine. */
export interface RecordedActorStep {
  readonly kind: ActorKind
  readonly id: string
  /** Differs from the aggregate of the command where the command creates another one. */
  readonly aggregateId: string
  readonly event: AnyEventObject
  /** The state after it; the unchanged one where the machine rejects. */
  readonly snapshot: ActorState
  /** The transitions taken, as `toMachineTransitionIds` names them. */
  readonly edges: readonly string[]
  readonly refused: ErrorCode | null
  /** The actor was created. */
  readonly isNew: boolean
}

/** What a command came from. `station`: a timer, a job or a message to the agent. */
export type CommandCause = 'request' | 'inbox' | 'station'

export interface RecordedCommand {
  readonly aggregateId: string
  readonly aggregateKind: AggregateKind
  readonly commandId: string
  /** The name of the command. */
  readonly command: string
  /** The version of the aggregate after it. */
  readonly version: number
  /** Milliseconds. */
  readonly at: number
  readonly cause: CommandCause
  readonly requestId: string | null
  readonly callId: string | null
  /** The node that ran it. */
  readonly node: string
  readonly steps: readonly RecordedActorStep[]
}

/** Where the runtime tells commands. While `watched` is false, it records nothing. */
export interface CommandRecorder {
  readonly watched: boolean
  /** The request that the current code runs for; null for none. */
  requestId(): string | null
  /** Runs code, and what it starts, for no request. */
  withoutRequest(work: () => void): void
  /** Tells a command after its commit, or a rejected one. */
  tell(command: Omit<RecordedCommand, 'node' | 'callId'>): void
}

/** For stations without an inspector. */
export const NOOP_COMMAND_RECORDER: CommandRecorder = {
  watched: false,
  requestId: () => null,
  withoutRequest: (work) => work(),
  tell: () => {},
}

/** The call that a command belongs to, from the first of its events that names one. */
export function findCallIdOfSteps(steps: readonly RecordedActorStep[]): string | null {
  for (const { event } of steps) {
    const { callId } = event as { callId?: unknown }
    if (typeof callId === 'string') return callId
  }
  return null
}
