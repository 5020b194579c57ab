import { assertEvent, assign, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { addMicros, minMicros, micros, subtractMicros, ZERO, type Micros } from '../core/money.ts'
import { FIRST_DEPOSIT_BONUS_BPS, MIN_DEPOSIT } from '../domain/pricing.ts'

/** The credit pool of a fleet. */

export interface FleetInput {
  readonly fleetId: string
  /** The agent that created the fleet. */
  readonly ownerId: string
}

export interface FleetContext {
  readonly fleetId: string
  readonly ownerId: string
  /** Deposited credits that members can draw. */
  readonly cash: Micros
  /** Promotional credits that members can draw. They stay promotional after a draw. */
  readonly promo: Micros
  readonly members: readonly string[]
  /** The bonus of the first top-up was credited. */
  readonly rewarded: boolean
}

export type FleetEvent =
  | { readonly type: 'JOIN'; readonly agentId: string }
  /** A member left. It draws nothing more; what it borrowed returns as `CREDIT`. */
  | { readonly type: 'LEAVE'; readonly agentId: string }
  /** A member lacks this amount for a call. */
  | { readonly type: 'DRAW'; readonly agentId: string; readonly amount: Micros }
  /** The unused part of a draw. Promotional credits return as such. */
  | { readonly type: 'CREDIT'; readonly amount: Micros; readonly promo?: Micros }
  | { readonly type: 'TOP_UP'; readonly amount: Micros }
  /** A top-up that the chain has undone, with its bonus. */
  | { readonly type: 'UNDO_TOP_UP'; readonly amount: Micros; readonly bonus: Micros }

type FleetPoolBalance = Pick<FleetContext, 'promo' | 'cash'>

/** Takes a draw from promotional credits first, then from cash. */
function subtractDraw({ promo, cash }: FleetPoolBalance, amount: Micros): FleetPoolBalance {
  const part = minMicros(promo, amount)
  return {
    promo: subtractMicros(promo, part),
    cash: subtractMicros(cash, subtractMicros(amount, part)),
  }
}

const isFleetMember = ({ members }: FleetContext, agentId: string) => members.includes(agentId)

/**
 * The pool that an owner's agents share. It lends at most its balance. The first top-up of at least
 * the minimum deposit brings a bonus.
 */
export const fleetMachine = setup({
  types: {} as { context: FleetContext; events: FleetEvent; input: FleetInput },
  guards: {
    hasJoined: ({ context, event }) => {
      assertEvent(event, ['JOIN', 'LEAVE'])
      return isFleetMember(context, event.agentId)
    },
    hasRoom: ({ context }) => context.members.length < LIMITS.fleetMembers,
    isStranger: ({ context, event }) => {
      assertEvent(event, 'DRAW')
      return !isFleetMember(context, event.agentId)
    },
    coversDraw: ({ context, event }) => {
      assertEvent(event, 'DRAW')
      return event.amount <= addMicros(context.promo, context.cash)
    },
    bringsBonus: ({ context, event }) => {
      assertEvent(event, 'TOP_UP')
      return !context.rewarded && event.amount >= MIN_DEPOSIT
    },
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode; of?: string; limit?: number }) => {},
    join: assign(({ context, event }) => {
      assertEvent(event, 'JOIN')
      return { members: [...context.members, event.agentId] }
    }),
    leave: assign(({ context, event }) => {
      assertEvent(event, 'LEAVE')
      return { members: context.members.filter((agentId) => agentId !== event.agentId) }
    }),
    lend: assign(({ context, event }) => {
      assertEvent(event, 'DRAW')
      return subtractDraw(context, event.amount)
    }),
    takeBack: assign(({ context, event }) => {
      assertEvent(event, 'CREDIT')
      const { amount, promo = ZERO } = event
      return { cash: addMicros(context.cash, amount), promo: addMicros(context.promo, promo) }
    }),
    credit: assign(({ context, event }) => {
      assertEvent(event, 'TOP_UP')
      return { cash: addMicros(context.cash, event.amount) }
    }),
    undoTopUp: assign(({ context, event }) => {
      assertEvent(event, 'UNDO_TOP_UP')
      const { amount, bonus } = event
      // Remove the bonus first, so that the remaining promotional credits can replace lent cash.
      const promo = subtractMicros(context.promo, minMicros(context.promo, bonus))
      const cash = minMicros(context.cash, amount)
      return {
        cash: subtractMicros(context.cash, cash),
        promo: subtractMicros(promo, minMicros(promo, subtractMicros(amount, cash))),
        rewarded: context.rewarded && bonus === ZERO,
      }
    }),
    reward: assign(({ context, event }) => {
      assertEvent(event, 'TOP_UP')
      const bonus = micros((event.amount * FIRST_DEPOSIT_BONUS_BPS) / 10_000n)
      return { promo: addMicros(context.promo, bonus), rewarded: true }
    }),
  },
}).createMachine({
  id: 'fleet',
  context: ({ input: { fleetId, ownerId } }) => ({
    fleetId,
    ownerId,
    cash: ZERO,
    promo: ZERO,
    members: [],
    rewarded: false,
  }),
  initial: 'open',
  states: {
    open: {
      on: {
        JOIN: [
          {
            guard: 'hasJoined',
            actions: { type: 'refuse', params: { code: 'already_in_fleet' } },
          },
          { guard: 'hasRoom', actions: 'join' },
          {
            actions: {
              type: 'refuse',
              params: { code: 'limit_reached', of: 'members', limit: LIMITS.fleetMembers },
            },
          },
        ],
        LEAVE: [
          { guard: 'hasJoined', actions: 'leave' },
          { actions: { type: 'refuse', params: { code: 'not_in_fleet' } } },
        ],
        DRAW: [
          {
            guard: 'isStranger',
            actions: { type: 'refuse', params: { code: 'not_in_fleet' } },
          },
          { guard: 'coversDraw', actions: 'lend' },
          { actions: { type: 'refuse', params: { code: 'payment_required' } } },
        ],
        CREDIT: { actions: 'takeBack' },
        TOP_UP: [{ guard: 'bringsBonus', actions: ['credit', 'reward'] }, { actions: 'credit' }],
        UNDO_TOP_UP: { actions: 'undoTopUp' },
        '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
      },
    },
  },
})
