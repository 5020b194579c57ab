import { assertEvent, assign, emit, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import type { Micros } from '../core/money.ts'

export interface ScheduleInput {
  readonly scheduleId: string
  readonly name: string
  readonly tool: string
  /** Milliseconds between two slots. */
  readonly every: number
  readonly budget: Micros
  readonly writeToHive: boolean
  /** The key it runs under, by the id its spending is counted under: its caps count every run. */
  readonly keyId: string | null
  /** The Backpack its runs act in; null for none. */
  readonly backpackId: string | null
  readonly at: number
}

/** Why a schedule was paused that no credits can resume: its key, or its Backpack, has ended. */
export type SchedulePauseReason = 'key_revoked' | 'key_expired' | 'REVOKED'

export interface ScheduleContext extends Omit<ScheduleInput, 'at'> {
  readonly createdAt: number
  /** When the next run is due; the run of this slot may still end when no other will come. */
  readonly slot: number | null
  /** Slots before it whose runs may be under way still: it was enabled again meanwhile. */
  readonly late: readonly number[]
  /** The latest slot that has ended; none before it comes again, whatever a clock says. */
  readonly ended: number
  readonly runs: number
  /** What a run would have cost when the credits were exhausted. */
  readonly needed: Micros | null
  /** Set while it is paused for another reason than its credits. */
  readonly pausedFor: { readonly reason: SchedulePauseReason; readonly at: number } | null
}

export type ScheduleEvent =
  /** The run of a slot has ended; `at` is by the database's clock. */
  | { readonly type: 'RAN'; readonly slot: number; readonly at: number }
  | { readonly type: 'EXHAUSTED'; readonly slot: number; readonly needed: Micros }
  /** The run of a slot was refused for good: nobody may run it any more. */
  | {
      readonly type: 'BARRED'
      readonly slot: number
      readonly reason: SchedulePauseReason
      readonly at: number
    }
  /** No further run begins; the run of the present slot may still end. */
  | { readonly type: 'PAUSE'; readonly reason: SchedulePauseReason; readonly at: number }
  | { readonly type: 'FUNDED'; readonly balance: Micros; readonly at: number }
  /** With a key: from here on it runs under that one. */
  | { readonly type: 'ENABLE'; readonly at: number; readonly keyId?: string | null }
  | { readonly type: 'DISABLE' }
  | {
      readonly type: 'CHANGE'
      readonly name?: string
      readonly budget?: Micros
      readonly writeToHive?: boolean
    }
  | { readonly type: 'CANCEL' }

export interface ScheduleEmittedEvent {
  readonly type: 'schedule.paused'
  readonly scheduleId: string
  readonly name: string
  readonly tool: string
  readonly reason: 'payment_required' | SchedulePauseReason
  /** What a run would have cost, where credits were the reason. */
  readonly needed?: Micros
}

/** The first slot after an instant: slots lie on a grid from the creation on, so none drifts. */
function slotAfter({ createdAt, every, ended }: ScheduleContext, at: number): number {
  const passed = Math.floor((Math.max(at, ended) - createdAt) / every)
  return createdAt + every * (passed + 1)
}

/** Of a run that takes longer than so many slots nobody expects an end. */
const MAX_LATE_SLOTS = 8

/** It goes on with the next slot. The run of the one before it may be under way, and is awaited. */
function resumeSchedule(context: ScheduleContext, at: number) {
  const { slot: before, late } = context
  const slot = Math.max(slotAfter(context, Math.max(at, ...late)), before ?? 0)
  const open = before === null || before === slot ? late : [...late, before].slice(-MAX_LATE_SLOTS)
  return { slot, late: open, needed: null, pausedFor: null }
}

/**
 * A tool that is run on an interval. Each slot ends once: a run that ends a second time is refused,
 * and with it the charge in the same commit. A run that has begun may end whatever is asked of the
 * schedule meanwhile. What was missed while nobody could run it runs once.
 */
export const scheduleMachine = setup({
  types: {} as {
    context: ScheduleContext
    events: ScheduleEvent
    input: ScheduleInput
    emitted: ScheduleEmittedEvent
  },
  guards: {
    isSlot: ({ context, event }) => {
      assertEvent(event, ['RAN', 'EXHAUSTED', 'BARRED'])
      return event.slot === context.slot
    },
    isLate: ({ context, event }) => {
      assertEvent(event, ['RAN', 'EXHAUSTED', 'BARRED'])
      return context.late.includes(event.slot)
    },
    changesHands: ({ context, event }) => {
      assertEvent(event, 'ENABLE')
      return event.keyId !== undefined && event.keyId !== context.keyId
    },
    coversRun: ({ context, event }) => {
      assertEvent(event, 'FUNDED')
      return context.needed !== null && event.balance >= context.needed
    },
  },
  actions: {
    /** Does nothing: its presence among the actions of a step is the refusal. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: it is so already, or it does not matter any more. */
    accept: () => {},
    advance: assign(({ context, event }) => {
      assertEvent(event, 'RAN')
      const { slot: ended, at } = event
      return { ended, slot: slotAfter({ ...context, ended }, at) }
    }),
    /** The present slot has ended, and no other comes. */
    endLast: assign(({ event }) => {
      assertEvent(event, ['RAN', 'EXHAUSTED', 'BARRED'])
      return { slot: null, ended: event.slot }
    }),
    endLate: assign(({ context, event }) => {
      assertEvent(event, ['RAN', 'EXHAUSTED', 'BARRED'])
      const { slot } = event
      return {
        late: context.late.filter((other) => other !== slot),
        ended: Math.max(context.ended, slot),
      }
    }),
    count: assign(({ context }) => ({ runs: context.runs + 1 })),
    noteNeed: assign(({ event }) => {
      assertEvent(event, 'EXHAUSTED')
      return { slot: null, ended: event.slot, needed: event.needed }
    }),
    tellPaused: emit(({ context: { scheduleId, name, tool }, event }) => {
      assertEvent(event, 'EXHAUSTED')
      const reason = 'payment_required' as const
      return {
        type: 'schedule.paused' as const,
        scheduleId,
        name,
        tool,
        reason,
        needed: event.needed,
      }
    }),
    notePause: assign(({ event }) => {
      assertEvent(event, ['BARRED', 'PAUSE'])
      return { needed: null, pausedFor: { reason: event.reason, at: event.at } }
    }),
    tellBarred: emit(({ context: { scheduleId, name, tool }, event }) => {
      assertEvent(event, ['BARRED', 'PAUSE'])
      return { type: 'schedule.paused' as const, scheduleId, name, tool, reason: event.reason }
    }),
    takeOver: assign(({ context, event }) => {
      assertEvent(event, 'ENABLE')
      return { keyId: event.keyId === undefined ? context.keyId : event.keyId }
    }),
    resume: assign(({ context, event }) => {
      assertEvent(event, ['ENABLE', 'FUNDED'])
      return resumeSchedule(context, event.at)
    }),
    change: assign(({ context, event }) => {
      assertEvent(event, 'CHANGE')
      const { name = context.name, budget = context.budget } = event
      const { writeToHive = context.writeToHive } = event
      return { name, budget, writeToHive }
    }),
  },
}).createMachine({
  id: 'schedule',
  context: ({ input: { at, ...asked } }) => ({
    ...asked,
    createdAt: at,
    slot: at + asked.every,
    late: [],
    ended: at,
    runs: 0,
    needed: null,
    pausedFor: null,
  }),
  initial: 'enabled',
  on: {
    RAN: [
      { guard: 'isSlot', actions: ['endLast', 'count'] },
      { guard: 'isLate', actions: ['endLate', 'count'] },
      { actions: { type: 'refuse', params: { code: 'call_settled' } } },
    ],
    EXHAUSTED: [
      { guard: 'isSlot', actions: 'endLast' },
      { guard: 'isLate', actions: 'endLate' },
      { actions: 'accept' },
    ],
    BARRED: [
      { guard: 'isSlot', actions: 'endLast' },
      { guard: 'isLate', actions: 'endLate' },
      { actions: 'accept' },
    ],
    PAUSE: { actions: 'accept' },
    FUNDED: { actions: 'accept' },
    CHANGE: { actions: 'change' },
    CANCEL: { target: '.cancelled' },
  },
  states: {
    enabled: {
      on: {
        RAN: [
          { guard: 'isSlot', actions: ['advance', 'count'] },
          { guard: 'isLate', actions: ['endLate', 'count'] },
          { actions: { type: 'refuse', params: { code: 'call_settled' } } },
        ],
        EXHAUSTED: [
          { guard: 'isSlot', target: 'paused', actions: ['noteNeed', 'tellPaused'] },
          // The next run finds out by itself what is left.
          { guard: 'isLate', actions: 'endLate' },
          { actions: 'accept' },
        ],
        BARRED: [
          { guard: 'isSlot', target: 'paused', actions: ['endLast', 'notePause', 'tellBarred'] },
          { guard: 'isLate', actions: 'endLate' },
          { actions: 'accept' },
        ],
        PAUSE: { target: 'paused', actions: ['notePause', 'tellBarred'] },
        ENABLE: [{ guard: 'changesHands', actions: 'takeOver' }, { actions: 'accept' }],
        DISABLE: 'disabled',
      },
    },
    disabled: {
      on: {
        ENABLE: { target: 'enabled', actions: ['resume', 'takeOver'] },
        DISABLE: { actions: 'accept' },
      },
    },
    paused: {
      on: {
        ENABLE: { target: 'enabled', actions: ['resume', 'takeOver'] },
        // Credits resume it no more.
        PAUSE: { actions: 'notePause' },
        FUNDED: [
          { guard: 'coversRun', target: 'enabled', actions: 'resume' },
          { actions: 'accept' },
        ],
        DISABLE: 'disabled',
      },
    },
    cancelled: {
      on: {
        ENABLE: { actions: { type: 'refuse', params: { code: 'schedule_cancelled' } } },
        DISABLE: { actions: { type: 'refuse', params: { code: 'schedule_cancelled' } } },
        CHANGE: { actions: { type: 'refuse', params: { code: 'schedule_cancelled' } } },
        CANCEL: { actions: 'accept' },
      },
    },
  },
})
