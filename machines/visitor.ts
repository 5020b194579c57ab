import { assertEvent, assign, setup } from 'xstate'
import { utcDay } from '../core/clock.ts'
import type { ErrorCode } from '../core/errors.ts'

/** A visitor is known by its aggregate's id only. */
export type VisitorInput = Readonly<Record<string, never>>

export interface VisitorContext {
  /** The UTC day that is counted; empty before the first call. Never goes back. */
  readonly day: string
  /** Free calls of that day by tool; tools without one are left out. */
  readonly used: Readonly<Record<string, number>>
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

/** The counters as they stand at an instant: a new day starts empty, an older one does not come back. */
function visitorDay(context: VisitorContext, at: number): VisitorContext {
  const day = utcDay(at)
  return day > context.day ? { day, used: {} } : { day: context.day, used: context.used }
}

function recount({ day, used }: VisitorContext, tool: string, change: 1 | -1): VisitorContext {
  const { [tool]: before = 0, ...others } = used
  const count = before + change
  return { day, used: count > 0 ? { ...others, [tool]: count } : others }
}

/** The free calls of one address: so many of each tool a UTC day. A failed call gives its slot back. */
export const visitor = setup({
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
  },
  actions: {
    /** Does nothing: its presence among the actions of a step is the refusal. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: the call would be accepted, or there is nothing to give back. */
    accept: () => {},
    use: assign(({ context, event }) => {
      assertEvent(event, 'USE')
      return recount(visitorDay(context, event.at), event.tool, 1)
    }),
    giveBack: assign(({ context, event }) => {
      assertEvent(event, 'GIVE_BACK')
      return recount(visitorDay(context, event.at), event.tool, -1)
    }),
  },
}).createMachine({
  id: 'visitor',
  context: { day: '', used: {} },
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
        '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
      },
    },
  },
})
