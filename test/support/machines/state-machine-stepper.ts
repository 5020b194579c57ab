import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import {
  initialTransition,
  transition,
  type AnyStateMachine,
  type EventFromLogic,
  type InputFrom,
  type SnapshotFrom,
} from 'xstate'
import { getShortestPaths } from 'xstate/graph'
import { parseWithBigints } from '../../../core/bigint-json.ts'
import type { ErrorCode } from '../../../core/errors.ts'
import { micros, type Micros } from '../../../core/money.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

/** Runs machines step by step without the actor runtime. */

export const microUsd = (millionths: number): Micros => micros(BigInt(millionths))

interface Action {
  readonly type: string
  readonly params?: unknown
}

/** The result of one step, in the terms of the runtime. */
export interface MachineStepResult<M extends AnyStateMachine> {
  readonly snapshot: SnapshotFrom<M>
  readonly refused: ErrorCode | null
  readonly limit: string | null
  readonly emitted: Record<string, unknown>[]
  /** Started timers by id, with their delay. */
  readonly timers: Record<string, number>
  readonly cancelled: string[]
}

function toMachineStepResult<M extends AnyStateMachine>(
  snapshot: SnapshotFrom<M>,
  actions: Action[],
): MachineStepResult<M> {
  const params = (type: string) =>
    actions.filter((action) => action.type === type).map(({ params }) => params as never)
  const refusals = params('refuse') as { code: ErrorCode; limit?: string }[]
  const raised = params('xstate.raise') as { id: string; delay: number }[]
  const emitted = params('xstate.emit') as { event: Record<string, unknown> }[]
  return {
    snapshot,
    refused: refusals[0]?.code ?? null,
    limit: refusals[0]?.limit ?? null,
    emitted: emitted.map(({ event }) => event),
    timers: Object.fromEntries(raised.map(({ id, delay }) => [id, delay])),
    cancelled: (params('xstate.cancel') as { sendId: string }[]).map(({ sendId }) => sendId),
  }
}

export function startStateMachine<M extends AnyStateMachine>(
  machine: M,
  input: InputFrom<M>,
): MachineStepResult<M> {
  const [snapshot, actions] = initialTransition(machine, ...([input] as never))
  return toMachineStepResult(snapshot as SnapshotFrom<M>, actions as Action[])
}

export function stepStateMachine<M extends AnyStateMachine>(
  machine: M,
  from: SnapshotFrom<M>,
  event: EventFromLogic<M>,
): MachineStepResult<M> {
  const [snapshot, actions] = transition(machine, from, event)
  return toMachineStepResult(snapshot as SnapshotFrom<M>, actions as Action[])
}

/** Applies all events in order; returns the result of the last. */
export function playEvents<M extends AnyStateMachine>(
  machine: M,
  from: SnapshotFrom<M>,
  events: EventFromLogic<M>[],
): MachineStepResult<M> {
  return events.reduce(
    (outcome, event) => stepStateMachine(machine, outcome.snapshot, event),
    toMachineStepResult<M>(from, []),
  )
}

/** Event sequences of all shortest paths from `from` over an alphabet of events. */
export function shortestEventPaths<M extends AnyStateMachine>(
  machine: M,
  from: SnapshotFrom<M>,
  events: EventFromLogic<M>[],
  bucket: (snapshot: SnapshotFrom<M>) => string,
  limit: number,
): EventFromLogic<M>[][] {
  const found = getShortestPaths(machine as AnyStateMachine, {
    fromState: from as never,
    events: events as never,
    serializeState: (snapshot) => bucket(snapshot as SnapshotFrom<M>),
    serializeEvent: (event) =>
      JSON.stringify(event, (_, v) => (typeof v === 'bigint' ? `${v}n` : v)),
    limit,
  })
  return found.map(({ steps }) =>
    steps
      .map(({ event }) => event as EventFromLogic<M>)
      .filter(({ type }) => type !== 'xstate.init'),
  )
}

interface GoldenSnapshot {
  readonly name: string
  readonly value: unknown
  readonly context: Record<string, unknown>
}

/** Reads snapshots of earlier machine versions. */
export const readGoldenSnapshots = (file: string): GoldenSnapshot[] =>
  parseWithBigints<GoldenSnapshot[]>(
    readFileSync(join(REPOSITORY_ROOT, 'test/machines/golden', file), 'utf8'),
  )

export function restoreSnapshot<M extends AnyStateMachine>(
  machine: M,
  { value, context }: GoldenSnapshot,
): SnapshotFrom<M> {
  return machine.resolveState({ value: value as never, context }) as SnapshotFrom<M>
}
