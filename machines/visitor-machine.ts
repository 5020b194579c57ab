import { assertEvent, assign, setup } from 'xstate'
import { HOUR, utcDay } from '../core/clock.ts'
import type { ErrorCode } from '../core/errors.ts'

/** Empty: the aggregate's id identifies the visitor. */
export type VisitorInput = Readonly<Record<string, never>>

export interface VisitorContext {
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

export type VisitorEvent =
  | {
      readonly type: 'ASK'
      readonly tool: string
      readonly limit: number
      /** Running free calls of this tool. */
      readonly reserved: number
      readonly at: number
    }
  | { readonly type: 'USE'; readonly tool: string; readonly limit: number; readonly at: number }
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
function visitorDay(context: VisitorContext, at: number): Pick<VisitorContext, 'day' | 'used'> {
  const day = utcDay(at)
  return day > context.day ? { day, used: {} } : { day: context.day, used: context.used }
}

function adjustFreeCallCount(
  { day, used }: Pick<VisitorContext, 'day' | 'used'>,
  tool: string,
  change: 1 | -1,
): Pick<VisitorContext, 'day' | 'used'> {
  const { [tool]: before = 0, ...others } = used
  const count = before + change
  return { day, used: count > 0 ? { ...others, [tool]: count } : others }
}

/** The onboarding hour at a point in time. A new one starts when the last is over. */
const onboardingHourAt = ({ newcomers }: VisitorContext, at: number): VisitorOnboardingHour =>
  at < newcomers.since + HOUR ? newcomers : { since: at, agents: 0 }

/**
 * Free allowances of one address: calls per tool and UTC day, and new agents per hour, or one batch
 * in an unused hour. Failed free calls are returned.
 */
export const visitorMachine = setup({
  types: {} as { context: VisitorContext; events: VisitorEvent; input: VisitorInput },
  guards: {
    slotLeft: ({ context, event }) => {
      assertEvent(event, ['ASK', 'USE'])
      const reserved = event.type === 'ASK' ? event.reserved : 0
      return (visitorDay(context, event.at).used[event.tool] ?? 0) + reserved < event.limit
    },
    usedToday: ({ context, event }) => {
      assertEvent(event, 'GIVE_BACK')
      const { day, used } = visitorDay(context, event.at)
      return utcDay(event.usedAt) === day && (used[event.tool] ?? 0) > 0
    },
    roomLeft: ({ context, event }) => {
      assertEvent(event, 'JOIN')
      const { agents } = onboardingHourAt(context, event.at)
      return agents === 0 || agents + event.agents <= event.limit
    },
    joinedThen: ({ context, event }) => {
      assertEvent(event, 'LEAVE')
      return context.newcomers.since === event.since
    },
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: the call would be accepted, or there is nothing to return. */
    accept: () => {},
    use: assign(({ context, event }) => {
      assertEvent(event, 'USE')
      return adjustFreeCallCount(visitorDay(context, event.at), event.tool, 1)
    }),
    giveBack: assign(({ context, event }) => {
      assertEvent(event, 'GIVE_BACK')
      return adjustFreeCallCount(visitorDay(context, event.at), event.tool, -1)
    }),
    join: assign(({ context, event }) => {
      assertEvent(event, 'JOIN')
      const { since, agents: before } = onboardingHourAt(context, event.at)
      const agents = before + event.agents
      return { newcomers: { since, agents: event.fills ? Math.max(agents, event.limit) : agents } }
    }),
    leave: assign(({ context: { newcomers }, event }) => {
      assertEvent(event, 'LEAVE')
      return { newcomers: { ...newcomers, agents: Math.max(0, newcomers.agents - event.agents) } }
    }),
  },
}).createMachine({
  id: 'visitor',
  context: { day: '', used: {}, newcomers: { since: 0, agents: 0 } },
  initial: 'counting',
  states: {
    counting: {
      on: {
        ASK: [
          { guard: 'slotLeft', actions: 'accept' },
          { actions: { type: 'refuse', params: { code: 'free_tier_exhausted' } } },
        ],
        USE: [
          { guard: 'slotLeft', actions: 'use' },
          { actions: { type: 'refuse', params: { code: 'free_tier_exhausted' } } },
        ],
        GIVE_BACK: [{ guard: 'usedToday', actions: 'giveBack' }, { actions: 'accept' }],
        JOIN: [
          { guard: 'roomLeft', actions: 'join' },
          { actions: { type: 'refuse', params: { code: 'rate_limited' } } },
        ],
        LEAVE: [{ guard: 'joinedThen', actions: 'leave' }, { actions: 'accept' }],
        '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
      },
    },
  },
})
