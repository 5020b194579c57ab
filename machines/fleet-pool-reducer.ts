import { LIMITS } from '../core/limits.ts'
import {
  addMicros,
  smallerOfTwoMicros,
  subtractMicros,
  ZERO_MICROS,
  type Micros,
} from '../core/money.ts'
import { depositBonus, MIN_DEPOSIT, type BonusLeft } from '../domain/pricing.ts'
import { createReducerRejection, type Reducer } from './aggregate-reducer.ts'

/** The credit pool of a fleet. */

export interface FleetPoolReducerInput {
  readonly fleetId: string
  /** The agent that created the fleet. */
  readonly ownerId: string
}

export interface FleetPoolReducerContext {
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

export type FleetPoolReducerEvent =
  | { readonly type: 'JOIN'; readonly agentId: string }
  /** A member left. It draws nothing more; what it borrowed returns as `CREDIT`. */
  | { readonly type: 'LEAVE'; readonly agentId: string }
  /** A member lacks this amount for a call. */
  | {
      readonly type: 'DRAW'
      readonly agentId: string
      readonly amount: Micros
      /** Promotional credits stay in the pool. */
      readonly from?: 'cash'
    }
  /** The unused part of a draw. Promotional credits return as such. */
  | { readonly type: 'CREDIT'; readonly amount: Micros; readonly promo?: Micros }
  | { readonly type: 'TOP_UP'; readonly amount: Micros; readonly bonusLeft?: BonusLeft }
  /** A top-up that the chain has undone, with its bonus. */
  | { readonly type: 'UNDO_TOP_UP'; readonly amount: Micros; readonly bonus: Micros }

type FleetPoolBalance = Pick<FleetPoolReducerContext, 'promo' | 'cash'>

/** Takes a draw from promotional credits first, then from cash. */
function subtractDraw({ promo, cash }: FleetPoolBalance, amount: Micros): FleetPoolBalance {
  const part = smallerOfTwoMicros(promo, amount)
  return {
    promo: subtractMicros(promo, part),
    cash: subtractMicros(cash, subtractMicros(amount, part)),
  }
}

const isFleetMember = ({ members }: FleetPoolReducerContext, agentId: string) =>
  members.includes(agentId)

function joinFleet(context: FleetPoolReducerContext, agentId: string) {
  const { members } = context
  if (members.includes(agentId)) return createReducerRejection('already_in_fleet')
  const limit = LIMITS.fleetMembers
  return members.length < limit
    ? { ...context, members: [...members, agentId] }
    : createReducerRejection('limit_reached', { of: 'members', limit })
}

function topUpFleet(
  context: FleetPoolReducerContext,
  amount: Micros,
  bonusLeft?: BonusLeft,
): FleetPoolReducerContext {
  const cash = addMicros(context.cash, amount)
  if (context.rewarded || amount < MIN_DEPOSIT || bonusLeft === ZERO_MICROS)
    return { ...context, cash }
  const bonus = depositBonus(amount, bonusLeft)
  return { ...context, cash, promo: addMicros(context.promo, bonus), rewarded: true }
}

function undoFleetTopUp(
  context: FleetPoolReducerContext,
  amount: Micros,
  bonus: Micros,
): FleetPoolReducerContext {
  // Remove the bonus first, so that the remaining promotional credits can replace lent cash.
  const promo = subtractMicros(context.promo, smallerOfTwoMicros(context.promo, bonus))
  const cash = smallerOfTwoMicros(context.cash, amount)
  return {
    ...context,
    cash: subtractMicros(context.cash, cash),
    promo: subtractMicros(promo, smallerOfTwoMicros(promo, subtractMicros(amount, cash))),
    rewarded: context.rewarded && bonus === ZERO_MICROS,
  }
}

/**
 * The pool that an owner's agents share. It lends at most its balance. The first top-up of at least
 * the minimum deposit brings a bonus. A reducer: it has no states.
 */
export const fleetPoolReducer: Reducer<
  FleetPoolReducerContext,
  FleetPoolReducerEvent,
  FleetPoolReducerInput
> = {
  id: 'fleet',
  initial: ({ fleetId, ownerId }) => ({
    fleetId,
    ownerId,
    cash: ZERO_MICROS,
    promo: ZERO_MICROS,
    members: [],
    rewarded: false,
  }),
  on: {
    JOIN: (context, { agentId }) => joinFleet(context, agentId),
    LEAVE: (context, { agentId }) =>
      isFleetMember(context, agentId)
        ? { ...context, members: context.members.filter((member) => member !== agentId) }
        : createReducerRejection('not_in_fleet'),
    DRAW(context, { agentId, amount, from }) {
      if (!isFleetMember(context, agentId)) return createReducerRejection('not_in_fleet')
      const usable = from === 'cash' ? { ...context, promo: ZERO_MICROS } : context
      if (amount > addMicros(usable.promo, usable.cash))
        return createReducerRejection('payment_required')
      const { promo, cash } = subtractDraw(usable, amount)
      return { ...context, cash, promo: from === 'cash' ? context.promo : promo }
    },
    CREDIT: (context, { amount, promo = ZERO_MICROS }) => ({
      ...context,
      cash: addMicros(context.cash, amount),
      promo: addMicros(context.promo, promo),
    }),
    TOP_UP: (context, { amount, bonusLeft }) => topUpFleet(context, amount, bonusLeft),
    UNDO_TOP_UP: (context, { amount, bonus }) => undoFleetTopUp(context, amount, bonus),
  },
}
