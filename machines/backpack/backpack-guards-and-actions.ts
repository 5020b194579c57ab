import { assign, emit, enqueueActions, or, stateIn } from 'xstate'
import { backpackPermits } from '../../domain/backpack-spending-permissions.ts'
import { DAY } from '../../core/clock.ts'
import { addMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import {
  settleSpendWindows,
  findTrippedFuseLimit,
  spendWindowsAt,
  type Fuse,
  type FuseLimitKind,
  type SpendWindows,
} from './fuse-limits.ts'
import { createBaseMachineSetup, type EventOfType } from '../machine-setup.ts'

/** The context, events, guards and actions of a Backpack. */

export type BackpackState = 'active' | 'expired' | 'revoked'

export interface BackpackPagerContacts {
  readonly webhookUrl: string | null
  readonly ownerEmail: string | null
  readonly ownerTelegram: string | null
}

export interface BackpackMachineInput {
  readonly backpackId: string
  readonly agentName: string
  /** Permitted tools and other permissions; null permits all tools. */
  readonly tools: readonly string[] | null
  readonly fuse: Fuse
  readonly pager: BackpackPagerContacts
  readonly createdAt: number
  readonly expiresAt: number
}

export interface BackpackMachineContext extends BackpackMachineInput, SpendWindows {
  readonly spentTotal: Micros
  readonly calls: number
  /** By limit: the window of the last `fuse.tripped` event. */
  readonly told: Readonly<Partial<Record<FuseLimitKind, string>>>
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

export type BackpackMachineEvent =
  | ({ readonly type: 'ASK' } & BackpackSpendRequest)
  | ({ readonly type: 'HOLD' } & BackpackSpendRequest)
  /** Admits and charges at once: nothing is held in between. */
  | ({ readonly type: 'SPEND' } & BackpackSpendRequest)
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
      readonly pager?: BackpackPagerContacts
      readonly at: number
    }
  | { readonly type: 'REVOKE'; readonly at: number }
  | { readonly type: 'RENEW'; readonly expiresAt: number; readonly at: number }

export type BackpackMachineEmittedEvent =
  | { readonly type: 'backpack.expiring'; readonly days: 1 | 7 }
  | {
      readonly type: 'fuse.tripped'
      readonly limit: FuseLimitKind
      /** The UTC day or month of the rejected call. */
      readonly window: string
      readonly limitAmount: Micros
      /** Spent and held in that window, including in-memory holds. */
      readonly spent: Micros
      readonly needed: Micros
      readonly tool: string
    }

const hasExpired = ({ expiresAt }: BackpackMachineContext, at: number): boolean => at >= expiresAt
const allowsTool = ({ tools }: BackpackMachineContext, tool: string): boolean =>
  backpackPermits(tools, tool)
type BackpackSpendEvent = EventOfType<BackpackMachineEvent, 'ASK' | 'HOLD' | 'SPEND' | 'CHARGE'>

export const backpackMachineSetup = createBaseMachineSetup<
  BackpackMachineContext,
  BackpackMachineEvent,
  BackpackMachineInput,
  BackpackMachineEmittedEvent
>().extend({
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
    allowed: ({ context }, event: EventOfType<BackpackMachineEvent, 'ASK' | 'HOLD' | 'SPEND'>) => {
      const open = !hasExpired(context, event.at) && allowsTool(context, event.tool)
      return open && findTrippedFuseLimit(context, event) === undefined
    },
    pastExpiry: (
      { context },
      event: EventOfType<BackpackMachineEvent, 'ASK' | 'HOLD' | 'SPEND' | 'SET'>,
    ) => hasExpired(context, event.at),
    toolNotListed: (
      { context },
      event: EventOfType<BackpackMachineEvent, 'ASK' | 'HOLD' | 'SPEND'>,
    ) => !allowsTool(context, event.tool),
    fuseHolds: ({ context }, event: BackpackSpendEvent) =>
      findTrippedFuseLimit(context, event) === undefined,
    tripsPerCall: ({ context }, event: BackpackSpendEvent) =>
      findTrippedFuseLimit(context, event)?.limit === 'per_call',
    tripsPerDay: ({ context }, event: BackpackSpendEvent) =>
      findTrippedFuseLimit(context, event)?.limit === 'per_day',
    endsInFuture: (_, event: EventOfType<BackpackMachineEvent, 'RENEW'>) =>
      event.expiresAt > event.at,
    /** A renewal never shortens the lifetime. */
    endsEarlier: ({ context }, event: EventOfType<BackpackMachineEvent, 'RENEW'>) =>
      event.expiresAt > event.at && event.expiresAt <= context.expiresAt,
  },
  actions: {
    tellExpiring: emit((_, { days }: { days: 1 | 7 }) => ({
      type: 'backpack.expiring' as const,
      days,
    })),
    /** The first rejection in a window also notifies the owner. */
    tellTrippedOnce: enqueueActions(({ context, enqueue }, event: BackpackSpendEvent) => {
      const meter = findTrippedFuseLimit(context, event)
      if (meter === undefined || meter.limitAmount === null) throw new Error('no limit has tripped')
      const { limit, window, limitAmount, spent } = meter
      if (context.told[limit] === window) return
      const { amount: needed, tool } = event
      enqueue.emit({ type: 'fuse.tripped', limit, window, limitAmount, spent, needed, tool })
      enqueue.assign({
        ...spendWindowsAt(context, event.at),
        told: { ...context.told, [limit]: window },
      })
    }),
    hold: assign(({ context }, event: EventOfType<BackpackMachineEvent, 'HOLD'>) => {
      const windows = spendWindowsAt(context, event.at)
      return {
        ...windows,
        heldDay: addMicros(windows.heldDay, event.amount),
        heldMonth: addMicros(windows.heldMonth, event.amount),
      }
    }),
    charge: assign(({ context }, event: EventOfType<BackpackMachineEvent, 'CHARGE'>) => ({
      ...settleSpendWindows(context, event, ZERO_MICROS, event.amount),
      spentTotal: addMicros(context.spentTotal, event.amount),
      calls: context.calls + 1,
    })),
    spend: assign(({ context }, event: EventOfType<BackpackMachineEvent, 'SPEND'>) => {
      const { amount, at } = event
      return {
        ...settleSpendWindows(context, { heldAt: at, at }, ZERO_MICROS, amount),
        spentTotal: addMicros(context.spentTotal, amount),
        calls: context.calls + 1,
      }
    }),
    capture: assign(({ context }, event: EventOfType<BackpackMachineEvent, 'CAPTURE'>) => ({
      ...settleSpendWindows(context, event, event.held, event.amount),
      spentTotal: addMicros(context.spentTotal, event.amount),
      calls: context.calls + 1,
    })),
    release: assign(({ context }, event: EventOfType<BackpackMachineEvent, 'RELEASE'>) =>
      settleSpendWindows(context, event, event.held, ZERO_MICROS),
    ),
    change: assign(({ context }, event: EventOfType<BackpackMachineEvent, 'SET'>) => {
      const { tools = context.tools, fuse = context.fuse, pager = context.pager } = event
      return { tools, fuse, pager }
    }),
    extend: assign((_, event: EventOfType<BackpackMachineEvent, 'RENEW'>) => ({
      expiresAt: event.expiresAt,
      seenAt: event.at,
    })),
  },
})
