import { assertEvent, assign, emit, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import type { Micros } from '../core/money.ts'

/** A schedule: runs a tool at an interval. */

export interface ScheduleInput {
  readonly scheduleId: string
  readonly name: string
  readonly tool: string
  /** Milliseconds between two slots. */
  readonly every: number
  readonly budget: Micros
  readonly writeToHive: boolean
  /** The key it runs under: the id that spending is counted under. Its caps count every run. */
  readonly keyId: string | null
  /** The Backpack its runs use; null without one. */
  readonly backpackId: string | null
  readonly at: number
}

/** Why a schedule is paused that credits cannot resume: its key or Backpack has ended. */
export type SchedulePauseReason = 'key_revoked' | 'key_expired' | 'REVOKED'

export interface ScheduleContext extends Omit<ScheduleInput, 'at'> {
  readonly createdAt: number
  /** Due time of the next run. A run of this slot may still end after the last one. */
  readonly slot: number | null
  /** Earlier slots whose runs may still be under way, because the schedule was enabled again. */
  readonly late: readonly number[]
  /** The latest ended slot. No earlier slot is run again, even if a clock goes back. */
  readonly ended: number
  readonly runs: number
  /** Cost of the run that lacked credits. */
  readonly needed: Micros | null
  /** Set while it is paused for another reason than credits. */
  readonly pausedFor: { readonly reason: SchedulePauseReason; readonly at: number } | null
}

export type ScheduleEvent =
  /** The run of a slot ended; `at` is database time. */
  | { readonly type: 'RAN'; readonly slot: number; readonly at: number }
  | { readonly type: 'EXHAUSTED'; readonly slot: number; readonly needed: Micros }
  /** The run of a slot was rejected permanently: its key or Backpack has ended. */
  | {
      readonly type: 'BARRED'
      readonly slot: number
      readonly reason: SchedulePauseReason
      readonly at: number
    }
  /** No further run starts. A run of the current slot may still end. */
  | { readonly type: 'PAUSE'; readonly reason: SchedulePauseReason; readonly at: number }
  | { readonly type: 'FUNDED'; readonly balance: Micros; readonly at: number }
  /** With a key, later runs use that key. */
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
  /** Cost of a run, when credits were missing. */
  readonly needed?: Micros
}

/**
 * The first slot after a point in time. Slots are multiples of the interval since creation, so
 * there is no drift.
 */
function slotAfter({ createdAt, every, ended }: ScheduleContext, at: number): number {
  const passed = Math.floor((Math.max(at, ended) - createdAt) / every)
  return createdAt + every * (passed + 1)
}

/** Older late slots are dropped: their runs are not expected to end any more. */
const MAX_LATE_SLOTS = 8

/** Resumes with the next slot. A run of the previous slot may still end. */
function resumeSchedule(context: ScheduleContext, at: number) {
  const { slot: before, late } = context
  const slot = Math.max(slotAfter(context, Math.max(at, ...late)), before ?? 0)
  const open = before === null || before === slot ? late : [...late, before].slice(-MAX_LATE_SLOTS)
  return { slot, late: open, needed: null, pausedFor: null }
}

/**
 * A tool that runs at an interval. Each slot ends once: a second end is rejected together with its
 * charge. A started run may end after any change of the schedule. Missed slots run once.
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
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: the schedule is in this state already, or the event no longer matters. */
    accept: () => {},
    advance: assign(({ context, event }) => {
      assertEvent(event, 'RAN')
      const { slot: ended, at } = event
      return { ended, slot: slotAfter({ ...context, ended }, at) }
    }),
    /** The current slot has ended and no other follows. */
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
          // The next run determines the remaining credits itself.
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
        // From now on, credits do not resume it.
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
