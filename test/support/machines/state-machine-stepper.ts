import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import type {
  AnyEventObject,
  AnyStateMachine,
  EventFromLogic,
  InputFrom,
  SnapshotFrom,
} from 'xstate'
import {
  createMachineStepper,
  type MachineStep,
  type MachineStepper,
  type MachineOrReducerSnapshot,
} from '../../../actors/pure-machine-transition.ts'
import { createReducerStepper } from '../../../actors/reducer-stepper.ts'
import { parseWithBigints } from '../../../core/json/bigint.ts'
import type { ErrorCode } from '../../../core/errors.ts'
import { asMicros, type Micros } from '../../../core/money.ts'
import {
  toReducerSnapshot,
  type AnyReducer,
  type ReducerContext,
  type ReducerEventOf,
  type ReducerInput,
  type ReducerSnapshot,
} from '../../../machines/aggregate-reducer.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

/** Runs machines and reducers step by step without the actor runtime. */

export const microUsd = (millionths: number): Micros => asMicros(BigInt(millionths))

/** A machine or a reducer. */
export type SteppableActorLogic = AnyStateMachine | AnyReducer
export type SteppedSnapshot<L extends SteppableActorLogic> = L extends AnyStateMachine
  ? SnapshotFrom<L>
  : L extends AnyReducer
    ? ReducerSnapshot<ReducerContext<L>>
    : never
export type SteppedEvent<L extends SteppableActorLogic> = L extends AnyStateMachine
  ? EventFromLogic<L>
  : L extends AnyReducer
    ? ReducerEventOf<L>
    : never
type InputOf<L extends SteppableActorLogic> = L extends AnyStateMachine
  ? InputFrom<L>
  : L extends AnyReducer
    ? ReducerInput<L>
    : never

/** The result of one step, in the terms of the runtime. */
export interface MachineStepResult<L extends SteppableActorLogic> {
  readonly snapshot: SteppedSnapshot<L>
  readonly refused: ErrorCode | null
  readonly limit: string | null
  readonly emitted: Record<string, unknown>[]
  /** Started timers by id, with their delay. */
  readonly timers: Record<string, number>
  readonly cancelled: string[]
}

function toMachineStepResult<L extends SteppableActorLogic>(
  step: MachineStep,
): MachineStepResult<L> {
  const params = (type: string) =>
    step.actions.filter((action) => action.type === type).map(({ params }) => params as never)
  const raised = params('xstate.raise') as { id: string; delay: number }[]
  const emitted = params('xstate.emit') as { event: Record<string, unknown> }[]
  return {
    snapshot: step.snapshot as SteppedSnapshot<L>,
    refused: step.rejected?.code ?? null,
    limit: (step.rejected?.['limit'] as string | undefined) ?? null,
    emitted: emitted.map(({ event }) => event),
    timers: Object.fromEntries(raised.map(({ id, delay }) => [id, delay])),
    cancelled: (params('xstate.cancel') as { sendId: string }[]).map(({ sendId }) => sendId),
  }
}

const steppers = new Map<SteppableActorLogic, MachineStepper>()
function stepperFor(logic: SteppableActorLogic): MachineStepper {
  const stepper =
    steppers.get(logic) ??
    ('root' in logic
      ? createMachineStepper(logic as AnyStateMachine)
      : createReducerStepper(logic as AnyReducer))
  steppers.set(logic, stepper)
  return stepper
}

export function stepMachineToInitialState<L extends SteppableActorLogic>(
  logic: L,
  input: InputOf<L>,
): MachineStepResult<L> {
  return toMachineStepResult(stepperFor(logic).initial(input))
}

export function stepStateMachine<L extends SteppableActorLogic>(
  logic: L,
  from: SteppedSnapshot<L>,
  event: SteppedEvent<L>,
): MachineStepResult<L> {
  return toMachineStepResult(
    stepperFor(logic).step(from as MachineOrReducerSnapshot, event as AnyEventObject),
  )
}

/** Applies all events in order; returns the result of the last. */
export function stepMachineThroughEvents<L extends SteppableActorLogic>(
  logic: L,
  from: SteppedSnapshot<L>,
  events: SteppedEvent<L>[],
): MachineStepResult<L> {
  const none: MachineStep = {
    snapshot: from as MachineOrReducerSnapshot,
    actions: [],
    rejected: null,
  }
  return events.reduce(
    (outcome, event) => stepStateMachine(logic, outcome.snapshot, event),
    toMachineStepResult<L>(none),
  )
}

/** The shortest event sequence from `from` to each state, over an alphabet of events. */
export function shortestEventPaths<L extends SteppableActorLogic>(
  logic: L,
  from: SteppedSnapshot<L>,
  events: SteppedEvent<L>[],
  bucket: (snapshot: SteppedSnapshot<L>) => string,
  limit: number,
): SteppedEvent<L>[][] {
  const { step } = stepperFor(logic)
  const known = new Set([bucket(from)])
  const found: { snapshot: SteppedSnapshot<L>; path: SteppedEvent<L>[] }[] = [
    { snapshot: from, path: [] },
  ]
  for (const { snapshot, path } of found) {
    for (const event of events) {
      const next = step(snapshot as MachineOrReducerSnapshot, event as AnyEventObject).snapshot
      const key = bucket(next as SteppedSnapshot<L>)
      if (known.has(key)) continue
      known.add(key)
      found.push({ snapshot: next as SteppedSnapshot<L>, path: [...path, event] })
      if (found.length > limit) throw new Error(`more than ${limit} states`)
    }
  }
  return found.map(({ path }) => path)
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

export function restoreSnapshot<L extends SteppableActorLogic>(
  logic: L,
  { value, context }: GoldenSnapshot,
): SteppedSnapshot<L> {
  const snapshot =
    'root' in logic
      ? (logic as AnyStateMachine).resolveState({ value: value as never, context })
      : toReducerSnapshot(context)
  return snapshot as SteppedSnapshot<L>
}
