import { assertEvent, assign, setup } from 'xstate'
import { utcDay } from '../core/clock.ts'
import type { ErrorCode } from '../core/errors.ts'

export interface DailyQuotaInput {
  readonly agentId: string
}

export interface DailyQuotaContext extends DailyQuotaInput {
  /** The UTC day that is counted; empty before the first call. Never goes back. */
  readonly day: string
  /** Calls of that day by tool, those under way among them. */
  readonly used: Readonly<Record<string, number>>
  /** Calls under way, each with what it counts in. */
  readonly open: Readonly<Record<string, { readonly tool: string; readonly day: string }>>
  /** Bytes of answers that were kept that day and cost nothing. */
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

/** The counters as they stand at an instant: a new day starts empty, an older one does not come back. */
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
 * How often an agent may call a tool a UTC day, and how much of its answers is kept of it. A call counts from when it is let in, so that calls
 * side by side cannot be more; one that fails is given back.
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
    /** Does nothing: its presence among the actions of a step is the refusal. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: the call would be let in, or it never counted. */
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
