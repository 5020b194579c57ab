import { assertEvent, assign, setup } from 'xstate'
import { HOUR, utcDay } from '../core/clock.ts'
import type { ErrorCode } from '../core/errors.ts'

/** A visitor is known by its aggregate's id only. */
export type VisitorInput = Readonly<Record<string, never>>

export interface VisitorContext {
  /** The UTC day that is counted; empty before the first call. Never goes back. */
  readonly day: string
  /** Free calls of that day by tool; tools without one are left out. */
  readonly used: Readonly<Record<string, number>>
  /** Agents that joined from here, in the hour that the first of them began. */
  readonly newcomers: VisitorOnboardingHour
}

interface VisitorOnboardingHour {
  /** Milliseconds since the epoch; 0 before the first. Never goes back. */
  readonly since: number
  /** As they count: a batch may fill its hour. */
  readonly agents: number
}

export type VisitorEvent =
  | {
      readonly type: 'ASK'
      readonly tool: string
      readonly limit: number
      /** Free calls of this tool that are running right now. */
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
      /** Whoever joins so leaves nothing of the hour. */
      readonly fills: boolean
      readonly at: number
    }
  /** They did not join after all; `since` names the hour that they were counted in. */
  | { readonly type: 'LEAVE'; readonly agents: number; readonly since: number }

/** The counters as they stand at an instant: a new day starts empty, an older one does not come back. */
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

/** The newcomers as they stand at an instant: an hour that is over is followed by one that begins now. */
const onboardingHourAt = ({ newcomers }: VisitorContext, at: number): VisitorOnboardingHour =>
  at < newcomers.since + HOUR ? newcomers : { since: at, agents: 0 }

/**
 * What one address has for nothing: so many free calls of each tool a UTC day, of which a failed one is
 * given back, and so many new agents an hour, or one batch in an hour that nobody has begun.
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
    /** Does nothing: its presence among the actions of a step is the refusal. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: the call would be accepted, or there is nothing to take back. */
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
