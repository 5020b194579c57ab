import {
  RejectedByReducer,
  toReducerSnapshot,
  type AnyReducer,
} from '../machines/aggregate-reducer.ts'
import type { MachineStep, MachineStepAction, MachineStepper } from './pure-machine-transition.ts'

/** Steps a reducer as `createMachineStepper` steps a machine. */

const NO_ACTIONS: readonly MachineStepAction[] = []
const UNKNOWN_EVENT = new RejectedByReducer({ code: 'internal' })

type ReducerHandler = (context: unknown, event: unknown) => object

export function createReducerStepper({ initial, on }: AnyReducer): MachineStepper {
  const handlers = new Map(Object.entries(on) as [string, ReducerHandler][])
  return {
    initial: (input): MachineStep => ({
      snapshot: toReducerSnapshot(initial(input as never)),
      actions: NO_ACTIONS,
      rejected: null,
    }),
    step(before, event): MachineStep {
      const context = handlers.get(event.type)?.(before.context, event) ?? UNKNOWN_EVENT
      if (context instanceof RejectedByReducer)
        return { snapshot: before, actions: NO_ACTIONS, rejected: context.rejection }
      const snapshot = context === before.context ? before : toReducerSnapshot(context)
      return { snapshot, actions: NO_ACTIONS, rejected: null }
    },
  }
}
