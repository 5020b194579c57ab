import { assign } from 'xstate'
import { addMicros, subtractMicros, ZERO_MICROS, type Micros } from '../core/money.ts'
import { createBaseMachineSetup, type EventOfType } from './machine-setup.ts'

/** A task: a work session with a budget. */

export interface TaskSessionMachineInput {
  readonly taskId: string
  readonly name: string
  readonly budget: Micros
  /** The Backpack it was started in. Keys bound to it may work on the task. */
  readonly backpackId?: string | null
  readonly at: number
}

export interface TaskSessionMachineContext {
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

export type TaskSessionMachineEvent =
  | { readonly type: 'ASK'; readonly amount: Micros; readonly reserved: Micros }
  | { readonly type: 'HOLD'; readonly amount: Micros; readonly reserved: Micros }
  /** Admits and charges at once: nothing is held in between. */
  | { readonly type: 'SPEND'; readonly amount: Micros; readonly reserved: Micros }
  | { readonly type: 'CHARGE'; readonly amount: Micros }
  | { readonly type: 'CAPTURE'; readonly held: Micros; readonly amount: Micros }
  | { readonly type: 'RELEASE'; readonly held: Micros }
  | { readonly type: 'SET_BUDGET'; readonly budget: Micros; readonly reserved: Micros }
  | { readonly type: 'END'; readonly at: number }
  | { readonly type: 'CANCEL'; readonly at: number }

type TaskSpending = Pick<TaskSessionMachineContext, 'spent' | 'held' | 'budget'>

const fitsTaskBudget = (
  { spent, held, budget }: TaskSpending,
  amount: Micros,
  reserved: Micros,
): boolean => amount === ZERO_MICROS || spent + held + reserved + amount <= budget

const taskSessionSetup = createBaseMachineSetup<
  TaskSessionMachineContext,
  TaskSessionMachineEvent,
  TaskSessionMachineInput
>().extend({
  guards: {
    fitsBudget: (
      { context },
      event: EventOfType<TaskSessionMachineEvent, 'ASK' | 'HOLD' | 'SPEND'>,
    ) => fitsTaskBudget(context, event.amount, event.reserved),
    chargeFits: ({ context }, event: EventOfType<TaskSessionMachineEvent, 'CHARGE'>) =>
      fitsTaskBudget(context, event.amount, ZERO_MICROS),
    coversCapture: ({ context }, event: EventOfType<TaskSessionMachineEvent, 'CAPTURE'>) =>
      event.held <= context.held && event.amount <= event.held,
    coversRelease: ({ context }, event: EventOfType<TaskSessionMachineEvent, 'RELEASE'>) =>
      event.held <= context.held,
    coversSpent: ({ context }, event: EventOfType<TaskSessionMachineEvent, 'SET_BUDGET'>) =>
      event.budget >= context.spent + context.held + event.reserved,
  },
  actions: {
    hold: assign(({ context }, event: EventOfType<TaskSessionMachineEvent, 'HOLD'>) => ({
      held: addMicros(context.held, event.amount),
    })),
    charge: assign(
      ({ context }, event: EventOfType<TaskSessionMachineEvent, 'CHARGE' | 'SPEND'>) => ({
        spent: addMicros(context.spent, event.amount),
        calls: context.calls + 1,
      }),
    ),
    capture: assign(({ context }, event: EventOfType<TaskSessionMachineEvent, 'CAPTURE'>) => ({
      held: subtractMicros(context.held, event.held),
      spent: addMicros(context.spent, event.amount),
      calls: context.calls + 1,
    })),
    release: assign(({ context }, event: EventOfType<TaskSessionMachineEvent, 'RELEASE'>) => ({
      held: subtractMicros(context.held, event.held),
    })),
    replaceBudget: assign((_, event: EventOfType<TaskSessionMachineEvent, 'SET_BUDGET'>) => ({
      budget: event.budget,
    })),
    noteEnd: assign((_, event: EventOfType<TaskSessionMachineEvent, 'END' | 'CANCEL'>) => ({
      endedAt: event.at,
    })),
  },
})

/**
 * A work session with a budget: spent + held never exceeds it. A task that has ended still settles
 * calls admitted while it was active.
 */
export const taskSessionMachine = taskSessionSetup.createMachine({
  id: 'taskSession',
  context: ({ input: { taskId, name, budget, backpackId = null, at } }) => ({
    taskId,
    name,
    budget,
    spent: ZERO_MICROS,
    held: ZERO_MICROS,
    calls: 0,
    backpackId,
    startedAt: at,
    endedAt: null,
  }),
  initial: 'active',
  on: {
    CHARGE: [
      {
        guard: { type: 'chargeFits', params: ({ event }) => event },
        actions: { type: 'charge', params: ({ event }) => event },
      },
      { actions: { type: 'reject', params: { code: 'task_budget_exceeded' } } },
    ],
    CAPTURE: [
      {
        guard: { type: 'coversCapture', params: ({ event }) => event },
        actions: { type: 'capture', params: ({ event }) => event },
      },
      { actions: { type: 'reject', params: { code: 'call_settled' } } },
    ],
    RELEASE: [
      {
        guard: { type: 'coversRelease', params: ({ event }) => event },
        actions: { type: 'release', params: ({ event }) => event },
      },
      { actions: { type: 'reject', params: { code: 'call_settled' } } },
    ],
    '*': { actions: { type: 'reject', params: { code: 'task_not_active' } } },
  },
  states: {
    active: {
      on: {
        ASK: [
          {
            guard: { type: 'fitsBudget', params: ({ event }) => event },
          },
          { actions: { type: 'reject', params: { code: 'task_budget_exceeded' } } },
        ],
        HOLD: [
          {
            guard: { type: 'fitsBudget', params: ({ event }) => event },
            actions: { type: 'hold', params: ({ event }) => event },
          },
          { actions: { type: 'reject', params: { code: 'task_budget_exceeded' } } },
        ],
        SPEND: [
          {
            guard: { type: 'fitsBudget', params: ({ event }) => event },
            actions: { type: 'charge', params: ({ event }) => event },
          },
          { actions: { type: 'reject', params: { code: 'task_budget_exceeded' } } },
        ],
        SET_BUDGET: [
          {
            guard: { type: 'coversSpent', params: ({ event }) => event },
            actions: { type: 'replaceBudget', params: ({ event }) => event },
          },
          { actions: { type: 'reject', params: { code: 'budget_below_spent' } } },
        ],
        END: {
          target: 'completed',
          actions: { type: 'noteEnd', params: ({ event }) => event },
        },
        CANCEL: {
          target: 'abandoned',
          actions: { type: 'noteEnd', params: ({ event }) => event },
        },
      },
    },
    completed: { tags: 'ended' },
    abandoned: { tags: 'ended' },
  },
})
