import { assertEvent, assign, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import { addMicros, subtractMicros, ZERO, type Micros } from '../core/money.ts'

/** A task: a work session with a budget. */

export interface TaskSessionInput {
  readonly taskId: string
  readonly name: string
  readonly budget: Micros
  /** The Backpack it was started in. Keys bound to it may work on the task. */
  readonly backpackId?: string | null
  readonly at: number
}

export interface TaskSessionContext {
  readonly taskId: string
  readonly name: string
  readonly budget: Micros
  readonly spent: Micros
  readonly held: Micros
  readonly calls: number
  /** A key bound to a Backpack works only on tasks of that Backpack. */
  readonly backpackId: string | null
  readonly startedAt: number
  readonly endedAt: number | null
}

export type TaskSessionEvent =
  | { readonly type: 'ASK'; readonly amount: Micros; readonly reserved: Micros }
  | { readonly type: 'HOLD'; readonly amount: Micros; readonly reserved: Micros }
  | { readonly type: 'CHARGE'; readonly amount: Micros }
  | { readonly type: 'CAPTURE'; readonly held: Micros; readonly amount: Micros }
  | { readonly type: 'RELEASE'; readonly held: Micros }
  | { readonly type: 'SET_BUDGET'; readonly budget: Micros; readonly reserved: Micros }
  | { readonly type: 'END'; readonly at: number }
  | { readonly type: 'CANCEL'; readonly at: number }

type TaskSpending = Pick<TaskSessionContext, 'spent' | 'held' | 'budget'>

const fitsTaskBudget = (
  { spent, held, budget }: TaskSpending,
  amount: Micros,
  reserved: Micros,
): boolean => amount === ZERO || spent + held + reserved + amount <= budget

/**
 * A work session with a budget: spent + held never exceeds it. A task that has ended still settles
 * calls admitted while it was active.
 */
export const taskSessionMachine = setup({
  types: {} as { context: TaskSessionContext; events: TaskSessionEvent; input: TaskSessionInput },
  guards: {
    fitsBudget: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD'])
      return fitsTaskBudget(context, event.amount, event.reserved)
    },
    chargeFits: ({ context, event }) => {
      assertEvent(event, 'CHARGE')
      return fitsTaskBudget(context, event.amount, ZERO)
    },
    coversCapture: ({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      return event.held <= context.held && event.amount <= event.held
    },
    coversRelease: ({ context, event }) => {
      assertEvent(event, 'RELEASE')
      return event.held <= context.held
    },
    coversSpent: ({ context, event }) => {
      assertEvent(event, 'SET_BUDGET')
      return event.budget >= context.spent + context.held + event.reserved
    },
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: the call would be accepted. */
    accept: () => {},
    hold: assign(({ context, event }) => {
      assertEvent(event, 'HOLD')
      return { held: addMicros(context.held, event.amount) }
    }),
    charge: assign(({ context, event }) => {
      assertEvent(event, 'CHARGE')
      return { spent: addMicros(context.spent, event.amount), calls: context.calls + 1 }
    }),
    capture: assign(({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      return {
        held: subtractMicros(context.held, event.held),
        spent: addMicros(context.spent, event.amount),
        calls: context.calls + 1,
      }
    }),
    release: assign(({ context, event }) => {
      assertEvent(event, 'RELEASE')
      return { held: subtractMicros(context.held, event.held) }
    }),
    replaceBudget: assign(({ event }) => {
      assertEvent(event, 'SET_BUDGET')
      return { budget: event.budget }
    }),
    noteEnd: assign(({ event }) => {
      assertEvent(event, ['END', 'CANCEL'])
      return { endedAt: event.at }
    }),
  },
}).createMachine({
  id: 'taskSession',
  context: ({ input: { taskId, name, budget, backpackId = null, at } }) => ({
    taskId,
    name,
    budget,
    spent: ZERO,
    held: ZERO,
    calls: 0,
    backpackId,
    startedAt: at,
    endedAt: null,
  }),
  initial: 'active',
  on: {
    CHARGE: [
      { guard: 'chargeFits', actions: 'charge' },
      { actions: { type: 'refuse', params: { code: 'task_budget_exceeded' } } },
    ],
    CAPTURE: [
      { guard: 'coversCapture', actions: 'capture' },
      { actions: { type: 'refuse', params: { code: 'call_settled' } } },
    ],
    RELEASE: [
      { guard: 'coversRelease', actions: 'release' },
      { actions: { type: 'refuse', params: { code: 'call_settled' } } },
    ],
    '*': { actions: { type: 'refuse', params: { code: 'task_not_active' } } },
  },
  states: {
    active: {
      on: {
        ASK: [
          { guard: 'fitsBudget', actions: 'accept' },
          { actions: { type: 'refuse', params: { code: 'task_budget_exceeded' } } },
        ],
        HOLD: [
          { guard: 'fitsBudget', actions: 'hold' },
          { actions: { type: 'refuse', params: { code: 'task_budget_exceeded' } } },
        ],
        SET_BUDGET: [
          { guard: 'coversSpent', actions: 'replaceBudget' },
          { actions: { type: 'refuse', params: { code: 'budget_below_spent' } } },
        ],
        END: { target: 'completed', actions: 'noteEnd' },
        CANCEL: { target: 'abandoned', actions: 'noteEnd' },
      },
    },
    completed: {},
    abandoned: {},
  },
})
