import { assertEvent, assign, emit, or, setup, stateIn } from 'xstate'
import { backpackPermits } from '../domain/backpack-permissions.ts'
import { DAY } from '../core/clock.ts'
import type { ErrorCode } from '../core/errors.ts'
import { addMicros, ZERO, type Micros } from '../core/money.ts'
import {
  newSpendWindows,
  settleSpendWindows,
  findTrippedFuseLimit,
  spendWindowsAt,
  type Fuse,
  type FuseLimit,
  type SpendWindows,
} from './backpack/fuse-limits.ts'

/** A Backpack: an identity with its own tools, spend limits, expiry and notifications. */

export type BackpackState = 'active' | 'expired' | 'revoked'

export interface PagerContacts {
  readonly webhookUrl: string | null
  readonly ownerEmail: string | null
  readonly ownerTelegram: string | null
}

export interface BackpackInput {
  readonly backpackId: string
  readonly agentName: string
  /** Permitted tools and other permissions; null permits all tools. */
  readonly tools: readonly string[] | null
  readonly fuse: Fuse
  readonly pager: PagerContacts
  readonly createdAt: number
  readonly expiresAt: number
}

export interface BackpackContext extends BackpackInput, SpendWindows {
  readonly spentTotal: Micros
  readonly calls: number
  /** By limit: the window of the last `fuse.tripped` event. */
  readonly told: Readonly<Partial<Record<FuseLimit, string>>>
  /** Creation or last renewal. Timers count from here. */
  readonly seenAt: number
}

interface BackpackSpendRequest {
  readonly callId?: string
  readonly tool: string
  readonly amount: Micros
  /** Amounts that other calls of the same day and month hold in memory. */
  readonly reservedDay: Micros
  readonly reservedMonth: Micros
  readonly at: number
}

export type BackpackEvent =
  | ({ readonly type: 'ASK' } & BackpackSpendRequest)
  | ({ readonly type: 'HOLD' } & BackpackSpendRequest)
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
      readonly pager?: PagerContacts
      readonly at: number
    }
  | { readonly type: 'REVOKE'; readonly at: number }
  | { readonly type: 'RENEW'; readonly expiresAt: number; readonly at: number }

export type BackpackEmittedEvent =
  | { readonly type: 'backpack.expiring'; readonly days: 1 | 7 }
  | {
      readonly type: 'fuse.tripped'
      readonly limit: FuseLimit
      /** The UTC day or month of the rejected call. */
      readonly window: string
      readonly limitAmount: Micros
      /** Spent and held in that window, including in-memory holds. */
      readonly spent: Micros
      readonly needed: Micros
      readonly tool: string
    }

const hasExpired = ({ expiresAt }: BackpackContext, at: number): boolean => at >= expiresAt
const allowsTool = ({ tools }: BackpackContext, tool: string): boolean =>
  backpackPermits(tools, tool)
const spendEventTypes = ['ASK', 'HOLD', 'CHARGE'] as const

const backpackSetup = setup({
  types: {} as {
    context: BackpackContext
    events: BackpackEvent
    input: BackpackInput
    emitted: BackpackEmittedEvent
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
      const open = !hasExpired(context, event.at) && allowsTool(context, event.tool)
      return open && findTrippedFuseLimit(context, event) === undefined
    },
    pastExpiry: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD', 'SET'])
      return hasExpired(context, event.at)
    },
    toolNotListed: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD'])
      return !allowsTool(context, event.tool)
    },
    fuseHolds: ({ context, event }) => {
      assertEvent(event, spendEventTypes)
      return findTrippedFuseLimit(context, event) === undefined
    },
    trips: ({ context, event }, { limit }: { limit: FuseLimit }) => {
      assertEvent(event, spendEventTypes)
      return findTrippedFuseLimit(context, event)?.limit === limit
    },
    tripsFirst: ({ context, event }, { limit }: { limit: FuseLimit }) => {
      assertEvent(event, spendEventTypes)
      const meter = findTrippedFuseLimit(context, event)
      return meter?.limit === limit && context.told[limit] !== meter.window
    },
    endsInFuture: ({ event }) => {
      assertEvent(event, 'RENEW')
      return event.expiresAt > event.at
    },
    /** A renewal never shortens the lifetime. */
    endsEarlier: ({ context, event }) => {
      assertEvent(event, 'RENEW')
      return event.expiresAt > event.at && event.expiresAt <= context.expiresAt
    },
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode; limit?: FuseLimit }) => {},
    /** Does nothing: the call would be accepted, a timer was late, or the current end is later. */
    accept: () => {},
    tellExpiring: emit((_, { days }: { days: 1 | 7 }) => ({
      type: 'backpack.expiring' as const,
      days,
    })),
    tellTripped: emit(({ context, event }) => {
      assertEvent(event, spendEventTypes)
      const meter = findTrippedFuseLimit(context, event)
      if (meter === undefined || meter.limitAmount === null) throw new Error('no limit has tripped')
      const { limit, window, limitAmount, spent } = meter
      const { amount: needed, tool } = event
      return { type: 'fuse.tripped' as const, limit, window, limitAmount, spent, needed, tool }
    }),
    noteTold: assign(({ context, event }) => {
      assertEvent(event, spendEventTypes)
      const meter = findTrippedFuseLimit(context, event)
      if (meter === undefined) throw new Error('no limit has tripped')
      return {
        ...spendWindowsAt(context, event.at),
        told: { ...context.told, [meter.limit]: meter.window },
      }
    }),
    hold: assign(({ context, event }) => {
      assertEvent(event, 'HOLD')
      const windows = spendWindowsAt(context, event.at)
      return {
        ...windows,
        heldDay: addMicros(windows.heldDay, event.amount),
        heldMonth: addMicros(windows.heldMonth, event.amount),
      }
    }),
    charge: assign(({ context, event }) => {
      assertEvent(event, 'CHARGE')
      return {
        ...settleSpendWindows(context, event, ZERO, event.amount),
        spentTotal: addMicros(context.spentTotal, event.amount),
        calls: context.calls + 1,
      }
    }),
    capture: assign(({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      return {
        ...settleSpendWindows(context, event, event.held, event.amount),
        spentTotal: addMicros(context.spentTotal, event.amount),
        calls: context.calls + 1,
      }
    }),
    release: assign(({ context, event }) => {
      assertEvent(event, 'RELEASE')
      return settleSpendWindows(context, event, event.held, ZERO)
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

/** One rejection per limit. The first rejection in a window also notifies the owner. */
const fuseRejections = [
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

const expiredOrUnlistedRejections = [
  {
    guard: 'pastExpiry',
    actions: { type: 'refuse', params: { code: 'EXPIRED' } },
  },
  {
    guard: 'toolNotListed',
    actions: { type: 'refuse', params: { code: 'TOOL_NOT_ALLOWED' } },
  },
] as const

const renewTransition = { guard: 'endsInFuture', target: 'active', actions: 'extend' } as const
const renewRejection = { actions: { type: 'refuse', params: { code: 'invalid_input' } } } as const

/**
 * An identity with spend limits. Calls admitted before expiry are still charged. After revocation,
 * only durable holds settle.
 */
export const backpackMachine = backpackSetup.createMachine({
  id: 'backpack',
  context: ({ input }) => ({
    ...input,
    ...newSpendWindows(input.createdAt),
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
        ASK: [
          { guard: 'allowed', actions: 'accept' },
          ...expiredOrUnlistedRejections,
          ...fuseRejections,
        ],
        HOLD: [
          { guard: 'allowed', actions: 'hold' },
          ...expiredOrUnlistedRejections,
          ...fuseRejections,
        ],
        CHARGE: [{ guard: 'fuseHolds', actions: 'charge' }, ...fuseRejections],
        CAPTURE: { actions: 'capture' },
        RELEASE: { actions: 'release' },
        SET: [
          { guard: 'pastExpiry', actions: { type: 'refuse', params: { code: 'EXPIRED' } } },
          { actions: 'change' },
        ],
        REVOKE: 'revoked',
        RENEW: [
          { guard: 'endsEarlier', actions: 'accept' },
          { ...renewTransition, reenter: true },
          renewRejection,
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
        CHARGE: [{ guard: 'fuseHolds', actions: 'charge' }, ...fuseRejections],
        CAPTURE: { actions: 'capture' },
        RELEASE: { actions: 'release' },
        RENEW: [renewTransition, renewRejection],
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
