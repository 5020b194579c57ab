import { assertEvent, assign, emit, or, setup, stateIn } from 'xstate'
import { permits } from '../core/backpack-permissions.ts'
import { DAY } from '../core/clock.ts'
import type { ErrorCode } from '../core/errors.ts'
import { add, ZERO, type Micros } from '../core/money.ts'
import {
  openWindows,
  settle,
  trippedBy,
  windowsAt,
  type Fuse,
  type FuseLimit,
  type SpendWindows,
} from './fuse.ts'

export type BackpackState = 'active' | 'expired' | 'revoked'

export interface Pager {
  readonly webhookUrl: string | null
  readonly ownerEmail: string | null
  readonly ownerTelegram: string | null
}

export interface BackpackInput {
  readonly backpackId: string
  readonly agentName: string
  /** What it may do: tools, and permissions to spend otherwise; null = all tools. */
  readonly tools: readonly string[] | null
  readonly fuse: Fuse
  readonly pager: Pager
  readonly createdAt: number
  readonly expiresAt: number
}

export interface BackpackContext extends BackpackInput, SpendWindows {
  readonly spentTotal: Micros
  readonly calls: number
  /** The window in which the owner was last told that a limit had tripped. */
  readonly told: Readonly<Partial<Record<FuseLimit, string>>>
  /** Creation or the last renewal: the running timers count from here. */
  readonly seenAt: number
}

interface Wanted {
  readonly callId?: string
  readonly tool: string
  readonly amount: Micros
  /** What other calls of the same day and month hold in memory right now. */
  readonly reservedDay: Micros
  readonly reservedMonth: Micros
  readonly at: number
}

export type BackpackEvent =
  | ({ readonly type: 'ASK' } & Wanted)
  | ({ readonly type: 'HOLD' } & Wanted)
  | {
      readonly type: 'CHARGE'
      readonly tool: string
      readonly amount: Micros
      readonly heldAt: number
      readonly at: number
    }
  | {
      readonly type: 'CAPTURE'
      readonly held: Micros
      readonly amount: Micros
      readonly heldAt: number
      readonly at: number
    }
  | {
      readonly type: 'RELEASE'
      readonly held: Micros
      readonly heldAt: number
      readonly at: number
    }
  | {
      readonly type: 'SET'
      readonly tools?: readonly string[] | null
      readonly fuse?: Fuse
      readonly pager?: Pager
      readonly at: number
    }
  | { readonly type: 'REVOKE'; readonly at: number }
  | { readonly type: 'RENEW'; readonly expiresAt: number; readonly at: number }

export type BackpackEmitted =
  | { readonly type: 'backpack.expiring'; readonly days: 1 | 7 }
  | {
      readonly type: 'fuse.tripped'
      readonly limit: FuseLimit
      /** The UTC day or month it happened in. */
      readonly window: string
      readonly limitAmount: Micros
      /** Spent and held in that window, in memory too. */
      readonly spent: Micros
      readonly needed: Micros
      readonly tool: string
    }

const hasExpired = ({ expiresAt }: BackpackContext, at: number): boolean => at >= expiresAt
const lists = ({ tools }: BackpackContext, tool: string): boolean => permits(tools, tool)
const spends = ['ASK', 'HOLD', 'CHARGE'] as const

const machine = setup({
  types: {} as {
    context: BackpackContext
    events: BackpackEvent
    input: BackpackInput
    emitted: BackpackEmitted
  },
  delays: {
    weekBefore: ({ context: { expiresAt, seenAt } }) => Math.max(0, expiresAt - 7 * DAY - seenAt),
    dayBefore: ({ context: { expiresAt, seenAt } }) => Math.max(0, expiresAt - DAY - seenAt),
    expiry: ({ context: { expiresAt, seenAt } }) => Math.max(0, expiresAt - seenAt),
  },
  guards: {
    isFar: stateIn({ active: 'far' }),
    isBeforeLastDay: or([stateIn({ active: 'far' }), stateIn({ active: 'week' })]),
    startsInLastWeek: ({ context: { expiresAt, seenAt } }) => expiresAt - seenAt < 7 * DAY,
    startsInLastDay: ({ context: { expiresAt, seenAt } }) => expiresAt - seenAt < DAY,
    allowed: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD'])
      const open = !hasExpired(context, event.at) && lists(context, event.tool)
      return open && trippedBy(context, event) === undefined
    },
    pastExpiry: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD', 'SET'])
      return hasExpired(context, event.at)
    },
    toolNotListed: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD'])
      return !lists(context, event.tool)
    },
    fuseHolds: ({ context, event }) => {
      assertEvent(event, spends)
      return trippedBy(context, event) === undefined
    },
    trips: ({ context, event }, { limit }: { limit: FuseLimit }) => {
      assertEvent(event, spends)
      return trippedBy(context, event)?.limit === limit
    },
    tripsFirst: ({ context, event }, { limit }: { limit: FuseLimit }) => {
      assertEvent(event, spends)
      const meter = trippedBy(context, event)
      return meter?.limit === limit && context.told[limit] !== meter.window
    },
    endsInFuture: ({ event }) => {
      assertEvent(event, 'RENEW')
      return event.expiresAt > event.at
    },
    /** A renewal never shortens: the later end holds. */
    endsEarlier: ({ context, event }) => {
      assertEvent(event, 'RENEW')
      return event.expiresAt > event.at && event.expiresAt <= context.expiresAt
    },
  },
  actions: {
    /** Does nothing: its presence among the actions of a step is the refusal. */
    refuse: (_, _params: { code: ErrorCode; limit?: FuseLimit }) => {},
    /** Does nothing: the call would be accepted, an alarm came late, or the present end is later. */
    accept: () => {},
    tellExpiring: emit((_, { days }: { days: 1 | 7 }) => ({
      type: 'backpack.expiring' as const,
      days,
    })),
    tellTripped: emit(({ context, event }) => {
      assertEvent(event, spends)
      const meter = trippedBy(context, event)
      if (meter === undefined || meter.limitAmount === null) throw new Error('no limit has tripped')
      const { limit, window, limitAmount, spent } = meter
      const { amount: needed, tool } = event
      return { type: 'fuse.tripped' as const, limit, window, limitAmount, spent, needed, tool }
    }),
    noteTold: assign(({ context, event }) => {
      assertEvent(event, spends)
      const meter = trippedBy(context, event)
      if (meter === undefined) throw new Error('no limit has tripped')
      return {
        ...windowsAt(context, event.at),
        told: { ...context.told, [meter.limit]: meter.window },
      }
    }),
    hold: assign(({ context, event }) => {
      assertEvent(event, 'HOLD')
      const windows = windowsAt(context, event.at)
      return {
        ...windows,
        heldDay: add(windows.heldDay, event.amount),
        heldMonth: add(windows.heldMonth, event.amount),
      }
    }),
    charge: assign(({ context, event }) => {
      assertEvent(event, 'CHARGE')
      return {
        ...settle(context, event, ZERO, event.amount),
        spentTotal: add(context.spentTotal, event.amount),
        calls: context.calls + 1,
      }
    }),
    capture: assign(({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      return {
        ...settle(context, event, event.held, event.amount),
        spentTotal: add(context.spentTotal, event.amount),
        calls: context.calls + 1,
      }
    }),
    release: assign(({ context, event }) => {
      assertEvent(event, 'RELEASE')
      return settle(context, event, event.held, ZERO)
    }),
    change: assign(({ context, event }) => {
      assertEvent(event, 'SET')
      const { tools = context.tools, fuse = context.fuse, pager = context.pager } = event
      return { tools, fuse, pager }
    }),
    extend: assign(({ event }) => {
      assertEvent(event, 'RENEW')
      return { expiresAt: event.expiresAt, seenAt: event.at }
    }),
  },
})

/** Each limit refuses on its own line; the first refusal of a window also tells the owner. */
const fuses = [
  {
    guard: { type: 'tripsFirst', params: { limit: 'per_call' } },
    actions: [
      'tellTripped',
      'noteTold',
      { type: 'refuse', params: { code: 'FUSE_TRIPPED', limit: 'per_call' } },
    ],
  },
  {
    guard: { type: 'trips', params: { limit: 'per_call' } },
    actions: { type: 'refuse', params: { code: 'FUSE_TRIPPED', limit: 'per_call' } },
  },
  {
    guard: { type: 'tripsFirst', params: { limit: 'per_day' } },
    actions: [
      'tellTripped',
      'noteTold',
      { type: 'refuse', params: { code: 'FUSE_TRIPPED', limit: 'per_day' } },
    ],
  },
  {
    guard: { type: 'trips', params: { limit: 'per_day' } },
    actions: { type: 'refuse', params: { code: 'FUSE_TRIPPED', limit: 'per_day' } },
  },
  {
    guard: { type: 'tripsFirst', params: { limit: 'per_month' } },
    actions: [
      'tellTripped',
      'noteTold',
      { type: 'refuse', params: { code: 'FUSE_TRIPPED', limit: 'per_month' } },
    ],
  },
  { actions: { type: 'refuse', params: { code: 'FUSE_TRIPPED', limit: 'per_month' } } },
] as const

const closed = [
  {
    guard: 'pastExpiry',
    actions: { type: 'refuse', params: { code: 'EXPIRED' } },
  },
  {
    guard: 'toolNotListed',
    actions: { type: 'refuse', params: { code: 'TOOL_NOT_ALLOWED' } },
  },
] as const

const renewal = { guard: 'endsInFuture', target: 'active', actions: 'extend' } as const
const renewalRefused = { actions: { type: 'refuse', params: { code: 'invalid_input' } } } as const

/**
 * A stateful identity with spend limits. Calls admitted before it expired are still charged;
 * revocation stops charges at once and lets only durable holds settle.
 */
export const backpack = machine.createMachine({
  id: 'backpack',
  context: ({ input }) => ({
    ...input,
    ...openWindows(input.createdAt),
    spentTotal: ZERO,
    calls: 0,
    told: {},
    seenAt: input.createdAt,
  }),
  initial: 'active',
  states: {
    active: {
      initial: 'far',
      after: {
        weekBefore: [
          {
            guard: 'isFar',
            target: '.week',
            actions: { type: 'tellExpiring', params: { days: 7 } },
          },
          { actions: 'accept' },
        ],
        dayBefore: [
          {
            guard: 'isBeforeLastDay',
            target: '.day',
            actions: { type: 'tellExpiring', params: { days: 1 } },
          },
          { actions: 'accept' },
        ],
        expiry: 'expired',
      },
      on: {
        ASK: [{ guard: 'allowed', actions: 'accept' }, ...closed, ...fuses],
        HOLD: [{ guard: 'allowed', actions: 'hold' }, ...closed, ...fuses],
        CHARGE: [{ guard: 'fuseHolds', actions: 'charge' }, ...fuses],
        CAPTURE: { actions: 'capture' },
        RELEASE: { actions: 'release' },
        SET: [
          { guard: 'pastExpiry', actions: { type: 'refuse', params: { code: 'EXPIRED' } } },
          { actions: 'change' },
        ],
        REVOKE: 'revoked',
        RENEW: [
          { guard: 'endsEarlier', actions: 'accept' },
          { ...renewal, reenter: true },
          renewalRefused,
        ],
        '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
      },
      states: {
        far: {
          always: [
            { guard: 'startsInLastDay', target: 'day' },
            { guard: 'startsInLastWeek', target: 'week' },
          ],
        },
        week: {},
        day: {},
      },
    },
    expired: {
      on: {
        CHARGE: [{ guard: 'fuseHolds', actions: 'charge' }, ...fuses],
        CAPTURE: { actions: 'capture' },
        RELEASE: { actions: 'release' },
        RENEW: [renewal, renewalRefused],
        REVOKE: 'revoked',
        '*': { actions: { type: 'refuse', params: { code: 'EXPIRED' } } },
      },
    },
    revoked: {
      on: {
        CAPTURE: { actions: 'capture' },
        RELEASE: { actions: 'release' },
        REVOKE: { actions: 'accept' },
        '*': { actions: { type: 'refuse', params: { code: 'REVOKED' } } },
      },
    },
  },
})
