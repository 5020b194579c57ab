import { assertEvent, assign, setup } from 'xstate'
import { utcDay } from '../core/clock.ts'
import type { ErrorCode } from '../core/errors.ts'

/** Daily limits of an agent: calls per tool and bytes of stored free responses. */

export interface DailyQuotaInput {
  readonly agentId: string
}

export interface DailyQuotaContext extends DailyQuotaInput {
  /** The counted UTC day; empty before the first call. Never goes back. */
  readonly day: string
  /** Calls of that day by tool, including running ones. */
  readonly used: Readonly<Record<string, number>>
  /** Running calls with the tool and day that count them. */
  readonly open: Readonly<Record<string, { readonly tool: string; readonly day: string }>>
  /** Bytes of free responses stored on that day. */
  readonly kept: number
}

export type DailyQuotaEvent =
  | {
      readonly type: 'ASK'
      readonly tool: string
      readonly most: number
      readonly at: number
    }
  | {
      readonly type: 'TAKE'
      readonly callId: string
      readonly tool: string
      readonly most: number
      readonly at: number
    }
  | { readonly type: 'KEEP' | 'GIVE_BACK'; readonly callId: string }
  | {
      readonly type: 'STORE'
      readonly bytes: number
      readonly most: number
      readonly at: number
    }

/** The counters at a point in time. A new day starts empty; an older one never reopens. */
function quotaCountersAt(
  { day, used, kept }: DailyQuotaContext,
  at: number,
): Pick<DailyQuotaContext, 'day' | 'used' | 'kept'> {
  const today = utcDay(at)
  return today > day ? { day: today, used: {}, kept: 0 } : { day, used, kept }
}

function withoutOpenCall({ open }: DailyQuotaContext, callId: string): DailyQuotaContext['open'] {
  return Object.fromEntries(Object.entries(open).filter(([id]) => id !== callId))
}

/**
 * Daily calls per tool and daily bytes of stored responses of an agent. A call counts from
 * admission, so that concurrent calls cannot exceed the limit; a failed call is returned.
 */
export const dailyQuotaMachine = setup({
  types: {} as { context: DailyQuotaContext; events: DailyQuotaEvent; input: DailyQuotaInput },
  guards: {
    hasLeft: ({ context, event }) => {
      assertEvent(event, ['ASK', 'TAKE'])
      return (quotaCountersAt(context, event.at).used[event.tool] ?? 0) < event.most
    },
    roomLeft: ({ context, event }) => {
      assertEvent(event, 'STORE')
      return quotaCountersAt(context, event.at).kept + event.bytes <= event.most
    },
    isOpen: ({ context, event }) => {
      assertEvent(event, ['KEEP', 'GIVE_BACK'])
      return Object.hasOwn(context.open, event.callId)
    },
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: the call would be admitted, or it was never counted. */
    accept: () => {},
    take: assign(({ context, event }) => {
      assertEvent(event, 'TAKE')
      const { callId, tool } = event
      const { day, used, kept } = quotaCountersAt(context, event.at)
      return {
        day,
        kept,
        used: { ...used, [tool]: (used[tool] ?? 0) + 1 },
        open: { ...context.open, [callId]: { tool, day } },
      }
    }),
    store: assign(({ context, event }) => {
      assertEvent(event, 'STORE')
      const { kept, ...day } = quotaCountersAt(context, event.at)
      return { ...day, kept: kept + event.bytes }
    }),
    keep: assign(({ context, event }) => {
      assertEvent(event, 'KEEP')
      return { open: withoutOpenCall(context, event.callId) }
    }),
    giveBack: assign(({ context, event }) => {
      assertEvent(event, 'GIVE_BACK')
      const open = withoutOpenCall(context, event.callId)
      const call = context.open[event.callId]
      // Its day is over and no longer counted.
      if (call === undefined || call.day !== context.day) return { open }
      const { [call.tool]: before = 0, ...others } = context.used
      return { open, used: before > 1 ? { ...others, [call.tool]: before - 1 } : others }
    }),
  },
}).createMachine({
  id: 'quota',
  context: ({ input }) => ({ ...input, day: '', used: {}, open: {}, kept: 0 }),
  initial: 'counting',
  on: {
    ASK: [
      { guard: 'hasLeft', actions: 'accept' },
      { actions: { type: 'refuse', params: { code: 'quota_exceeded' } } },
    ],
    TAKE: [
      { guard: 'hasLeft', actions: 'take' },
      { actions: { type: 'refuse', params: { code: 'quota_exceeded' } } },
    ],
    KEEP: [{ guard: 'isOpen', actions: 'keep' }, { actions: 'accept' }],
    GIVE_BACK: [{ guard: 'isOpen', actions: 'giveBack' }, { actions: 'accept' }],
    STORE: [
      { guard: 'roomLeft', actions: 'store' },
      { actions: { type: 'refuse', params: { code: 'quota_exceeded' } } },
    ],
    '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
  },
  states: { counting: {} },
})
