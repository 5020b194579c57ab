import { utcDay } from '../core/clock.ts'
import { createReducerRejection, type Reducer } from './aggregate-reducer.ts'

/** Daily limits of an agent: calls per tool and bytes of stored free responses. */

export interface DailyQuotaReducerInput {
  readonly agentId: string
}

export interface DailyQuotaReducerContext extends DailyQuotaReducerInput {
  /** The counted UTC day; empty before the first call. Never goes back. */
  readonly day: string
  /** Calls of that day by tool, including running ones. */
  readonly used: Readonly<Record<string, number>>
  /** Running calls with the tool and day that count them. */
  readonly open: Readonly<Record<string, { readonly tool: string; readonly day: string }>>
  /** Bytes of free responses stored on that day. */
  readonly kept: number
}

interface QuotaRequest {
  readonly tool: string
  readonly most: number
  readonly at: number
}

export type DailyQuotaReducerEvent =
  | ({ readonly type: 'ASK' } & QuotaRequest)
  | ({ readonly type: 'TAKE'; readonly callId: string } & QuotaRequest)
  | { readonly type: 'KEEP'; readonly callId: string }
  | { readonly type: 'GIVE_BACK'; readonly callId: string }
  | {
      readonly type: 'STORE'
      readonly bytes: number
      readonly most: number
      readonly at: number
    }

/** The counters at a point in time. A new day starts empty; an older one never reopens. */
function quotaCountersAt(
  { day, used, kept }: DailyQuotaReducerContext,
  at: number,
): Pick<DailyQuotaReducerContext, 'day' | 'used' | 'kept'> {
  const today = utcDay(at)
  return today > day ? { day: today, used: {}, kept: 0 } : { day, used, kept }
}

function withoutOpenCall(
  { open }: DailyQuotaReducerContext,
  callId: string,
): DailyQuotaReducerContext['open'] {
  return Object.fromEntries(Object.entries(open).filter(([id]) => id !== callId))
}

function takeQuota(
  context: DailyQuotaReducerContext,
  { callId, tool, at }: QuotaRequest & { readonly callId: string },
): DailyQuotaReducerContext {
  const { day, used, kept } = quotaCountersAt(context, at)
  return {
    ...context,
    day,
    kept,
    used: { ...used, [tool]: (used[tool] ?? 0) + 1 },
    open: { ...context.open, [callId]: { tool, day } },
  }
}

function giveQuotaBack(
  context: DailyQuotaReducerContext,
  callId: string,
): DailyQuotaReducerContext {
  const call = context.open[callId]
  if (call === undefined) return context
  const open = withoutOpenCall(context, callId)
  // Its day is over and no longer counted.
  if (call.day !== context.day) return { ...context, open }
  const { [call.tool]: before = 0, ...others } = context.used
  return { ...context, open, used: before > 1 ? { ...others, [call.tool]: before - 1 } : others }
}

const hasQuotaLeft = (
  context: DailyQuotaReducerContext,
  { tool, most, at }: QuotaRequest,
): boolean => (quotaCountersAt(context, at).used[tool] ?? 0) < most

/**
 * Daily calls per tool and daily bytes of stored responses of an agent. A call counts from
 * admission, so that concurrent calls cannot exceed the limit; a failed call is returned. A reducer:
 * it has no states.
 */
export const dailyQuotaReducer: Reducer<
  DailyQuotaReducerContext,
  DailyQuotaReducerEvent,
  DailyQuotaReducerInput
> = {
  id: 'quota',
  initial: (input) => ({ ...input, day: '', used: {}, open: {}, kept: 0 }),
  on: {
    ASK: (context, event) =>
      hasQuotaLeft(context, event) ? context : createReducerRejection('quota_exceeded'),
    TAKE: (context, event) =>
      hasQuotaLeft(context, event)
        ? takeQuota(context, event)
        : createReducerRejection('quota_exceeded'),
    KEEP: (context, { callId }) =>
      Object.hasOwn(context.open, callId)
        ? { ...context, open: withoutOpenCall(context, callId) }
        : context,
    GIVE_BACK: (context, { callId }) => giveQuotaBack(context, callId),
    STORE(context, { bytes, most, at }) {
      const { kept, ...day } = quotaCountersAt(context, at)
      return kept + bytes <= most
        ? { ...context, ...day, kept: kept + bytes }
        : createReducerRejection('quota_exceeded')
    },
  },
}
