import {
  createActor,
  createMachine,
  type AnyActorScope,
  type AnyEventObject,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyTransitionDefinition,
} from 'xstate'
import type {
  MachineRejectedEvent,
  MachineEventRejection,
} from '../machines/machine-event-rejection.ts'

/** An action of a step, as data. */
export interface MachineStepAction {
  readonly type: string
  readonly params: unknown
}

/** What the runtime reads of the snapshot of a machine or a reducer. */
export interface MachineOrReducerSnapshot {
  readonly status: string
  /** The state; null for a reducer. */
  readonly value: unknown
  readonly context: unknown
  /** `ended`: its life is over. It may still settle what is open, and rejects the rest. */
  readonly tags: ReadonlySet<string>
}

export interface MachineStep {
  readonly snapshot: MachineOrReducerSnapshot
  readonly actions: readonly MachineStepAction[]
  /** Null when the event was accepted. Never part of `actions`. */
  readonly rejected: MachineEventRejection | null
}

/** Computes pure transitions of one machine or reducer. */
export interface MachineStepper {
  initial(input: unknown): MachineStep
  step(before: MachineOrReducerSnapshot, event: AnyEventObject): MachineStep
}

/** What XState tells an inspector of each microstep. */
interface MicrostepEvent {
  readonly type: string
  readonly _transitions?: readonly AnyTransitionDefinition[]
}

/** Never started: it only provides its reference and system to the shared scope. */
const inertActor = createActor(createMachine({}))

/**
 * Computes one pure transition. Equal to XState's `transition()` (a property test proves it) and
 * ten times as fast: all steps share one scope around an actor that never starts. A guard or action
 * that throws leaves nothing behind.
 */
export function createMachineStepper(machine: AnyStateMachine): MachineStepper {
  let actions: MachineStepAction[] = []
  let rejected: MachineEventRejection | null = null
  const scope = {
    self: inertActor,
    system: inertActor.system,
    id: '',
    sessionId: '',
    logger() {},
    defer() {},
    stopChild() {},
    emit() {},
    actionExecutor({ type, params }: MachineStepAction) {
      const rejection = type === 'xstate.emit' ? toRejection(params) : null
      if (rejection === null) actions.push({ type, params })
      else rejected ??= rejection
    },
  } as unknown as AnyActorScope
  return {
    initial(input) {
      actions = []
      rejected = null
      const snapshot = machine.getInitialSnapshot(scope, input as never) as AnyMachineSnapshot
      return { snapshot, actions, rejected }
    },
    step(before, event) {
      actions = []
      rejected = null
      const snapshot = machine.transition(before as AnyMachineSnapshot, event, scope)
      return { snapshot: snapshot as AnyMachineSnapshot, actions, rejected }
    },
  }
}

/** Runs a step and tells which transitions it takes, in order; reducers have none. */
export function runStepAndObserveTransitions<T>(step: () => T): {
  readonly result: T
  readonly taken: readonly AnyTransitionDefinition[]
} {
  const taken: AnyTransitionDefinition[] = []
  const watch = inertActor.system.inspect({
    next({ type, _transitions = [] }: MicrostepEvent) {
      if (type === '@xstate.microstep') taken.push(..._transitions)
    },
  })
  try {
    return { result: step(), taken }
  } finally {
    watch.unsubscribe()
  }
}

function toRejection(params: unknown): MachineEventRejection | null {
  const { event } = params as { readonly event: MachineRejectedEvent }
  if (event.type !== 'rejected') return null
  const { type: _, ...rejection } = event
  return rejection
}
