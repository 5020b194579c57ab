import { assign, emit } from 'xstate'
import type { Micros } from '../core/money.ts'
import { createBaseMachineSetup, type EventOfType } from './machine-setup.ts'

/** A schedule: runs a tool at an interval. */

export interface ScheduleMachineInput {
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
export type SchedulePauseErrorCode = 'key_revoked' | 'key_expired' | 'REVOKED'

export interface ScheduleMachineContext extends Omit<ScheduleMachineInput, 'at'> {
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
  readonly pausedFor: {
    readonly reason: SchedulePauseErrorCode
    readonly at: number
  } | null
}

export type ScheduleMachineEvent =
  /** The run of a slot ended; `at` is database time. */
  | { readonly type: 'RAN'; readonly slot: number; readonly at: number }
  | { readonly type: 'EXHAUSTED'; readonly slot: number; readonly needed: Micros }
  /** The run of a slot was rejected permanently: its key or Backpack has ended. */
  | {
      readonly type: 'BARRED'
      readonly slot: number
      readonly reason: SchedulePauseErrorCode
      readonly at: number
    }
  /** No further run starts. A run of the current slot may still end. */
  | {
      readonly type: 'PAUSE'
      readonly reason: SchedulePauseErrorCode
      readonly at: number
    }
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

export interface ScheduleMachineEmittedEvent {
  readonly type: 'schedule.paused'
  readonly scheduleId: string
  readonly name: string
  readonly tool: string
  readonly reason: 'payment_required' | SchedulePauseErrorCode
  /** Cost of a run, when credits were missing. */
  readonly needed?: Micros
}

/**
 * The first slot after a point in time. Slots are multiples of the interval since creation, so
 * there is no drift.
 */
function slotAfter({ createdAt, every, ended }: ScheduleMachineContext, at: number): number {
  const passed = Math.floor((Math.max(at, ended) - createdAt) / every)
  return createdAt + every * (passed + 1)
}

/** Older late slots are dropped: their runs are not expected to end any more. */
const MAX_LATE_SLOTS = 8

/** Resumes with the next slot. A run of the previous slot may still end. */
function resumeSchedule(context: ScheduleMachineContext, at: number) {
  const { slot: before, late } = context
  const slot = Math.max(slotAfter(context, Math.max(at, ...late)), before ?? 0)
  const open = before === null || before === slot ? late : [...late, before].slice(-MAX_LATE_SLOTS)
  return { slot, late: open, needed: null, pausedFor: null }
}

const scheduleSetup = createBaseMachineSetup<
  ScheduleMachineContext,
  ScheduleMachineEvent,
  ScheduleMachineInput,
  ScheduleMachineEmittedEvent
>().extend({
  guards: {
    isSlot: (
      { context },
      event: EventOfType<ScheduleMachineEvent, 'RAN' | 'EXHAUSTED' | 'BARRED'>,
    ) => event.slot === context.slot,
    isLate: (
      { context },
      event: EventOfType<ScheduleMachineEvent, 'RAN' | 'EXHAUSTED' | 'BARRED'>,
    ) => context.late.includes(event.slot),
    changesHands: ({ context }, event: EventOfType<ScheduleMachineEvent, 'ENABLE'>) =>
      event.keyId !== undefined && event.keyId !== context.keyId,
    coversRun: ({ context }, event: EventOfType<ScheduleMachineEvent, 'FUNDED'>) =>
      context.needed !== null && event.balance >= context.needed,
  },
  actions: {
    advance: assign(({ context }, event: EventOfType<ScheduleMachineEvent, 'RAN'>) => {
      const { slot: ended, at } = event
      return { ended, slot: slotAfter({ ...context, ended }, at) }
    }),
    /** The current slot has ended and no other follows. */
    endLast: assign(
      (_, event: EventOfType<ScheduleMachineEvent, 'RAN' | 'EXHAUSTED' | 'BARRED'>) => ({
        slot: null,
        ended: event.slot,
      }),
    ),
    endLate: assign(
      ({ context }, event: EventOfType<ScheduleMachineEvent, 'RAN' | 'EXHAUSTED' | 'BARRED'>) => {
        const { slot } = event
        return {
          late: context.late.filter((other) => other !== slot),
          ended: Math.max(context.ended, slot),
        }
      },
    ),
    count: assign(({ context }) => ({ runs: context.runs + 1 })),
    noteNeed: assign((_, event: EventOfType<ScheduleMachineEvent, 'EXHAUSTED'>) => ({
      slot: null,
      ended: event.slot,
      needed: event.needed,
    })),
    tellPaused: emit(
      (
        { context: { scheduleId, name, tool } },
        event: EventOfType<ScheduleMachineEvent, 'EXHAUSTED'>,
      ) => {
        const reason = 'payment_required' as const
        return {
          type: 'schedule.paused' as const,
          scheduleId,
          name,
          tool,
          reason,
          needed: event.needed,
        }
      },
    ),
    notePause: assign((_, event: EventOfType<ScheduleMachineEvent, 'BARRED' | 'PAUSE'>) => ({
      needed: null,
      pausedFor: { reason: event.reason, at: event.at },
    })),
    tellBarred: emit(
      (
        { context: { scheduleId, name, tool } },
        event: EventOfType<ScheduleMachineEvent, 'BARRED' | 'PAUSE'>,
      ) => ({ type: 'schedule.paused' as const, scheduleId, name, tool, reason: event.reason }),
    ),
    takeOver: assign(({ context }, event: EventOfType<ScheduleMachineEvent, 'ENABLE'>) => ({
      keyId: event.keyId === undefined ? context.keyId : event.keyId,
    })),
    resume: assign(({ context }, event: EventOfType<ScheduleMachineEvent, 'ENABLE' | 'FUNDED'>) =>
      resumeSchedule(context, event.at),
    ),
    change: assign(({ context }, event: EventOfType<ScheduleMachineEvent, 'CHANGE'>) => {
      const { name = context.name, budget = context.budget } = event
      const { writeToHive = context.writeToHive } = event
      return { name, budget, writeToHive }
    }),
  },
})

/**
 * A tool that runs at an interval. Each slot ends once: a second end is rejected together with its
 * charge. A started run may end after any change of the schedule. Missed slots run once.
 */
export const scheduleMachine = scheduleSetup.createMachine({
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
      {
        guard: { type: 'isSlot', params: ({ event }) => event },
        actions: [{ type: 'endLast', params: ({ event }) => event }, 'count'],
      },
      {
        guard: { type: 'isLate', params: ({ event }) => event },
        actions: [{ type: 'endLate', params: ({ event }) => event }, 'count'],
      },
      { actions: { type: 'reject', params: { code: 'call_settled' } } },
    ],
    EXHAUSTED: [
      {
        guard: { type: 'isSlot', params: ({ event }) => event },
        actions: { type: 'endLast', params: ({ event }) => event },
      },
      {
        guard: { type: 'isLate', params: ({ event }) => event },
        actions: { type: 'endLate', params: ({ event }) => event },
      },
      {},
    ],
    BARRED: [
      {
        guard: { type: 'isSlot', params: ({ event }) => event },
        actions: { type: 'endLast', params: ({ event }) => event },
      },
      {
        guard: { type: 'isLate', params: ({ event }) => event },
        actions: { type: 'endLate', params: ({ event }) => event },
      },
      {},
    ],
    PAUSE: {},
    FUNDED: {},
    CHANGE: {
      actions: { type: 'change', params: ({ event }) => event },
    },
    CANCEL: { target: '.cancelled' },
  },
  states: {
    enabled: {
      on: {
        RAN: [
          {
            guard: { type: 'isSlot', params: ({ event }) => event },
            actions: [{ type: 'advance', params: ({ event }) => event }, 'count'],
          },
          {
            guard: { type: 'isLate', params: ({ event }) => event },
            actions: [{ type: 'endLate', params: ({ event }) => event }, 'count'],
          },
          { actions: { type: 'reject', params: { code: 'call_settled' } } },
        ],
        EXHAUSTED: [
          {
            guard: { type: 'isSlot', params: ({ event }) => event },
            target: 'paused',
            actions: [
              { type: 'noteNeed', params: ({ event }) => event },
              { type: 'tellPaused', params: ({ event }) => event },
            ],
          },
          // The next run determines the remaining credits itself.
          {
            guard: { type: 'isLate', params: ({ event }) => event },
            actions: { type: 'endLate', params: ({ event }) => event },
          },
          {},
        ],
        BARRED: [
          {
            guard: { type: 'isSlot', params: ({ event }) => event },
            target: 'paused',
            actions: [
              { type: 'endLast', params: ({ event }) => event },
              { type: 'notePause', params: ({ event }) => event },
              { type: 'tellBarred', params: ({ event }) => event },
            ],
          },
          {
            guard: { type: 'isLate', params: ({ event }) => event },
            actions: { type: 'endLate', params: ({ event }) => event },
          },
          {},
        ],
        PAUSE: {
          target: 'paused',
          actions: [
            { type: 'notePause', params: ({ event }) => event },
            { type: 'tellBarred', params: ({ event }) => event },
          ],
        },
        ENABLE: [
          {
            guard: { type: 'changesHands', params: ({ event }) => event },
            actions: { type: 'takeOver', params: ({ event }) => event },
          },
          {},
        ],
        DISABLE: 'disabled',
      },
    },
    disabled: {
      on: {
        ENABLE: {
          target: 'enabled',
          actions: [
            { type: 'resume', params: ({ event }) => event },
            { type: 'takeOver', params: ({ event }) => event },
          ],
        },
        DISABLE: {},
      },
    },
    paused: {
      on: {
        ENABLE: {
          target: 'enabled',
          actions: [
            { type: 'resume', params: ({ event }) => event },
            { type: 'takeOver', params: ({ event }) => event },
          ],
        },
        // From now on, credits do not resume it.
        PAUSE: {
          actions: { type: 'notePause', params: ({ event }) => event },
        },
        FUNDED: [
          {
            guard: { type: 'coversRun', params: ({ event }) => event },
            target: 'enabled',
            actions: { type: 'resume', params: ({ event }) => event },
          },
          {},
        ],
        DISABLE: 'disabled',
      },
    },
    cancelled: {
      tags: 'ended',
      on: {
        ENABLE: { actions: { type: 'reject', params: { code: 'schedule_cancelled' } } },
        DISABLE: { actions: { type: 'reject', params: { code: 'schedule_cancelled' } } },
        CHANGE: { actions: { type: 'reject', params: { code: 'schedule_cancelled' } } },
        CANCEL: {},
      },
    },
  },
})
