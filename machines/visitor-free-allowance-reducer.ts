import { HOUR, utcDay } from '../core/clock.ts'
import { createReducerRejection, type Reducer } from './aggregate-reducer.ts'

/** Empty: the aggregate's id identifies the visitor. */
export type VisitorFreeAllowanceReducerInput = Readonly<Record<string, never>>

export interface VisitorFreeAllowanceReducerContext {
  /** The counted UTC day; empty before the first call. Never goes back. */
  readonly day: string
  /** Free calls of that day by tool, without zeros. */
  readonly used: Readonly<Record<string, number>>
  /** Agents that onboarded from this address within the current hour. */
  readonly newcomers: VisitorOnboardingHour
}

interface VisitorOnboardingHour {
  /** Milliseconds since the epoch; 0 before the first. Never goes back. */
  readonly since: number
  /** Counted agents: a batch may use up its hour. */
  readonly agents: number
}

interface FreeCallRequest {
  readonly tool: string
  readonly limit: number
  readonly at: number
}

export type VisitorFreeAllowanceReducerEvent =
  /** `reserved`: running free calls of this tool. */
  | ({ readonly type: 'ASK'; readonly reserved: number } & FreeCallRequest)
  | ({ readonly type: 'USE' } & FreeCallRequest)
  | {
      readonly type: 'GIVE_BACK'
      readonly tool: string
      readonly usedAt: number
      readonly at: number
    }
  | {
      readonly type: 'JOIN'
      readonly agents: number
      readonly limit: number
      /** Uses up the whole hour. */
      readonly fills: boolean
      readonly at: number
    }
  /** The agents did not onboard after all; `since` names the hour that counted them. */
  | { readonly type: 'LEAVE'; readonly agents: number; readonly since: number }

/** The counters at a point in time. A new day starts empty; an older one never reopens. */
function visitorDay(
  context: VisitorFreeAllowanceReducerContext,
  at: number,
): Pick<VisitorFreeAllowanceReducerContext, 'day' | 'used'> {
  const day = utcDay(at)
  return day > context.day ? { day, used: {} } : { day: context.day, used: context.used }
}

function adjustFreeCallCount(
  { day, used }: Pick<VisitorFreeAllowanceReducerContext, 'day' | 'used'>,
  tool: string,
  change: 1 | -1,
): Pick<VisitorFreeAllowanceReducerContext, 'day' | 'used'> {
  const { [tool]: before = 0, ...others } = used
  const count = before + change
  return { day, used: count > 0 ? { ...others, [tool]: count } : others }
}

/** The onboarding hour at a point in time. A new one starts when the last is over. */
const onboardingHourAt = (
  { newcomers }: VisitorFreeAllowanceReducerContext,
  at: number,
): VisitorOnboardingHour => (at < newcomers.since + HOUR ? newcomers : { since: at, agents: 0 })

function hasFreeCallLeft(
  context: VisitorFreeAllowanceReducerContext,
  { tool, limit, at }: FreeCallRequest,
  reserved: number,
): boolean {
  return (visitorDay(context, at).used[tool] ?? 0) + reserved < limit
}

/**
 * Free allowances of one address: calls per tool and UTC day, and new agents per hour, or one batch
 * in an unused hour. Failed free calls are returned. A reducer: it has no states.
 */
export const visitorFreeAllowanceReducer: Reducer<
  VisitorFreeAllowanceReducerContext,
  VisitorFreeAllowanceReducerEvent,
  VisitorFreeAllowanceReducerInput
> = {
  id: 'visitor',
  initial: () => ({ day: '', used: {}, newcomers: { since: 0, agents: 0 } }),
  on: {
    ASK: (context, event) =>
      hasFreeCallLeft(context, event, event.reserved)
        ? context
        : createReducerRejection('free_tier_exhausted'),
    USE: (context, event) =>
      hasFreeCallLeft(context, event, 0)
        ? { ...context, ...adjustFreeCallCount(visitorDay(context, event.at), event.tool, 1) }
        : createReducerRejection('free_tier_exhausted'),
    GIVE_BACK(context, { tool, usedAt, at }) {
      const today = visitorDay(context, at)
      if (utcDay(usedAt) !== today.day || (today.used[tool] ?? 0) === 0) return context
      return { ...context, ...adjustFreeCallCount(today, tool, -1) }
    },
    JOIN(context, event) {
      const { since, agents: before } = onboardingHourAt(context, event.at)
      const agents = before + event.agents
      if (before > 0 && agents > event.limit) return createReducerRejection('rate_limited')
      const counted = event.fills ? Math.max(agents, event.limit) : agents
      return { ...context, newcomers: { since, agents: counted } }
    },
    LEAVE(context, { agents, since }) {
      const { newcomers } = context
      if (newcomers.since !== since) return context
      return { ...context, newcomers: { since, agents: Math.max(0, newcomers.agents - agents) } }
    },
  },
}
