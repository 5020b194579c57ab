import { sumFleetLoansOfCall, addFleetLoan, type FleetLoan } from '../../domain/fleet-loans.ts'
import {
  addMicros,
  smallerOfTwoMicros,
  asMicros,
  subtractMicros,
  sumMicros,
  ZERO_MICROS,
  type Micros,
} from '../../core/money.ts'
import {
  CRITICAL_BALANCE_MICROS,
  depositBonus,
  MIN_DEPOSIT,
  WARNING_BALANCE_MICROS,
  type BonusLeft,
} from '../../domain/pricing.ts'
import {
  findExceededKeyCap,
  type KeySpendCounters,
  type ApiKeyCapPeriod,
  type KeySpendRequest,
} from './api-key-spend-caps.ts'

/** The arithmetic of an agent's balance: promotional credits, cash, holds, loans and deposits. */

export type AgentBalanceTier = 'healthy' | 'warning' | 'critical' | 'empty'

/** The payment that settles a call instead of the balance. */
export interface ExternalPaymentOfHold {
  /** Aggregate id of the payer. */
  readonly payer: string
  readonly settlement: string
  readonly chain: 'base' | 'bsc' | 'solana' | 'tempo'
}

/** Money held for one running call, by origin. */
export interface AgentHold {
  readonly promo: Micros
  readonly cash: Micros
  /** Paid by an on-chain payment or a task pass: counts in every limit and is not part of the balance. */
  readonly external: Micros
  readonly payment: ExternalPaymentOfHold | null
  /** The task pass that pays: the amount is external. */
  readonly passId: string | null
  /** The parts that fleet pools lent. No other call can use them; the rest returns to the pools. */
  readonly loans: readonly FleetLoan[]
  readonly keyId: string | null
  /** The key has a spending cap, so a capture counts against it. */
  readonly capped: boolean
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly at: number
  /** Null while a pool has lent for a call that is not admitted yet. */
  readonly tool: string | null
  readonly idempotencyKey: string | null
}

export interface AgentMachineContext extends KeySpendCounters {
  readonly agentId: string
  /** Available promotional credits, without held ones. */
  readonly promo: Micros
  /** Available deposited credits, without held ones. */
  readonly cash: Micros
  readonly held: Micros
  readonly holds: Readonly<Record<string, AgentHold>>
  /** Sum of deposits below the minimum deposit. */
  readonly pending: Micros
  /** The first credited deposit that was not without a bonus for the day's sake, and its bonus; null before it. */
  readonly firstDeposit: { readonly id: string; readonly bonus: Micros } | null
  /** True after the first credited deposit, also when that is undone: its referrer was rewarded. */
  readonly activated: boolean
  /** The agent that earns a share of this agent's calls. */
  readonly referrer: string | null
  /** The agent whose bundle made this one. It earns half of the fee of each call. */
  readonly parent: string | null
  /** The fleet whose pool it draws on; null without a fleet. */
  readonly fleetId: string | null
  /** Since when its owner lets it spend nothing, and the tier then; null unless it is frozen. */
  readonly frozen: { readonly at: number; readonly tier: AgentBalanceTier } | null
}

interface PromoCash {
  readonly promo: Micros
  readonly cash: Micros
}

export const sumPromoAndCash = ({ promo, cash }: PromoCash): Micros => addMicros(promo, cash)
/** Balance and held money without loans of pools. */
export const agentBalanceWithoutFleetLoans = (context: AgentMachineContext): Micros =>
  subtractMicros(
    addMicros(sumPromoAndCash(context), context.held),
    sumMicros(Object.values(context.holds).map(lentAmountOfHold)),
  )
const lentAmountOfHold = ({ loans }: AgentHold): Micros =>
  sumPromoAndCash(sumFleetLoansOfCall(loans))

export function toAgentBalanceTier(balance: Micros): AgentBalanceTier {
  if (balance <= ZERO_MICROS) return 'empty'
  if (balance <= CRITICAL_BALANCE_MICROS) return 'critical'
  return balance <= WARNING_BALANCE_MICROS ? 'warning' : 'healthy'
}

/** Splits an amount: promotional credits first, then cash. */
export function splitAmountPromoFirst(purse: PromoCash, amount: Micros): PromoCash {
  const promo = smallerOfTwoMicros(purse.promo, amount)
  return { promo, cash: subtractMicros(amount, promo) }
}

export const subtractPromoAndCash = (purse: PromoCash, part: PromoCash): PromoCash => ({
  promo: subtractMicros(purse.promo, part.promo),
  cash: subtractMicros(purse.cash, part.cash),
})

export const addPromoCash = (purse: PromoCash, part: PromoCash): PromoCash => ({
  promo: addMicros(purse.promo, part.promo),
  cash: addMicros(purse.cash, part.cash),
})

/** The first cap of the key that an amount would exceed, counting the key's holds. */
export const findKeyCapExceededByAgentSpend = (
  context: AgentMachineContext,
  spend: KeySpendRequest,
): ApiKeyCapPeriod | undefined => findExceededKeyCap(context, agentHoldsForKeyCaps(context), spend)

/** Durable holds of an agent in the form that key caps count. */
export const agentHoldsForKeyCaps = ({ holds }: AgentMachineContext) =>
  Object.values(holds).map((hold) => ({
    keyId: hold.keyId,
    worth: holdTotalFromAllSources(hold),
    at: hold.at,
  }))

/** Total amount of a hold, from all sources. */
export const holdTotalFromAllSources = (hold: AgentHold): Micros =>
  addMicros(sumPromoAndCash(hold), hold.external)

export const promoAndCashCoverAmount = (
  purse: PromoCash,
  amount: Micros,
  reserved: Micros,
): boolean => amount === ZERO_MICROS || sumPromoAndCash(purse) - reserved >= amount

/** Cash left after in-memory holds, which use promotional credits first. */
export function spendableCash({ promo, cash }: PromoCash, reserved: Micros): Micros {
  return reserved > promo ? asMicros(cash - (reserved - promo)) : cash
}

export const isAdmittedHold = (hold: AgentHold | undefined): hold is AgentHold & { tool: string } =>
  hold !== undefined && hold.tool !== null

/** Loans of pools for a call that is not admitted yet. */
export const fleetLoansOfUnadmittedCall = (
  context: AgentMachineContext,
  callId: string,
): readonly FleetLoan[] => {
  const hold = context.holds[callId]
  return hold === undefined || isAdmittedHold(hold) ? [] : hold.loans
}

/** Sum of the loans for a call that is not admitted yet. */
export const totalLoansOfUnadmittedCall = (
  context: AgentMachineContext,
  callId: string,
): PromoCash => sumFleetLoansOfCall(fleetLoansOfUnadmittedCall(context, callId))

/** Whether something else than the balance pays: an on-chain payment, or a task pass. */
export const isPaidOutsideBalance = (by: {
  readonly payment?: ExternalPaymentOfHold | null
  readonly passId?: string | null
}): boolean => (by.payment ?? null) !== null || (by.passId ?? null) !== null

/** The part of an amount that the agent itself must pay. */
export function agentShareOfAmount(
  context: AgentMachineContext,
  callId: string | undefined,
  amount: Micros,
): Micros {
  if (callId === undefined) return amount
  return subtractMicros(
    amount,
    smallerOfTwoMicros(amount, sumPromoAndCash(totalLoansOfUnadmittedCall(context, callId))),
  )
}

/** The agent's own part of a hold. It is spent before loans. */
const ownShareOfHold = (hold: AgentHold): PromoCash =>
  subtractPromoAndCash(hold, sumFleetLoansOfCall(hold.loans))

/** The part of a hold that returns to the agent after a call with this cost. */
export function agentOwnRefund(hold: AgentHold, cost: Micros): PromoCash {
  if (isPaidOutsideBalance(hold)) return ZERO_PROMO_CASH
  const own = ownShareOfHold(hold)
  return subtractPromoAndCash(
    own,
    splitAmountPromoFirst(own, smallerOfTwoMicros(sumPromoAndCash(own), cost)),
  )
}

/** A hold of lent money for a call that is not admitted yet. */
export function createFleetLoanHold(
  context: AgentMachineContext,
  callId: string,
  loan: FleetLoan,
  at: number,
): AgentHold {
  const loans = addFleetLoan(fleetLoansOfUnadmittedCall(context, callId), loan)
  return { ...UNADMITTED_CALL, ...sumFleetLoansOfCall(loans), loans, at }
}

const UNADMITTED_CALL = {
  external: ZERO_MICROS,
  payment: null,
  passId: null,
  keyId: null,
  capped: false,
  taskId: null,
  backpackId: null,
  tool: null,
  idempotencyKey: null,
} as const

export const ZERO_PROMO_CASH: PromoCash = { promo: ZERO_MICROS, cash: ZERO_MICROS }

/**
 * Applies a deposit. Amounts accumulate below the minimum; the first credited one brings a bonus.
 * One that finds none only because the day has no more leaves it to the next (decision 492).
 */
export function applyDepositToAgent(
  context: AgentMachineContext,
  id: string,
  amount: Micros,
  bonusLeft?: BonusLeft,
): Partial<AgentMachineContext> {
  const pending = addMicros(context.pending, amount)
  if (pending < MIN_DEPOSIT) return { pending }
  const cash = addMicros(context.cash, pending)
  if (context.firstDeposit !== null) return { pending: ZERO_MICROS, cash }
  const credited = { pending: ZERO_MICROS, cash, activated: true }
  if (bonusLeft === ZERO_MICROS) return credited
  const bonus = depositBonus(pending, bonusLeft)
  return { ...credited, promo: addMicros(context.promo, bonus), firstDeposit: { id, bonus } }
}

type AgentFreeBalance = Pick<AgentMachineContext, 'pending' | 'promo' | 'cash'>

function subtractReversedDeposit(purse: AgentFreeBalance, amount: Micros): AgentFreeBalance {
  const pending = smallerOfTwoMicros(purse.pending, amount)
  const cash = smallerOfTwoMicros(purse.cash, subtractMicros(amount, pending))
  const promo = smallerOfTwoMicros(
    purse.promo,
    subtractMicros(subtractMicros(amount, pending), cash),
  )
  return {
    pending: subtractMicros(purse.pending, pending),
    cash: subtractMicros(purse.cash, cash),
    promo: subtractMicros(purse.promo, promo),
  }
}

export function reverseAgentDeposit(
  context: AgentMachineContext,
  id: string,
  amount: Micros,
): Partial<AgentMachineContext> {
  const { firstDeposit } = context
  if (firstDeposit?.id !== id) return subtractReversedDeposit(context, amount)
  // Remove the bonus first, so that the remaining promotional credits can replace missing cash.
  const promo = subtractMicros(context.promo, smallerOfTwoMicros(context.promo, firstDeposit.bonus))
  return { ...subtractReversedDeposit({ ...context, promo }, amount), firstDeposit: null }
}

export function omitHold(
  holds: AgentMachineContext['holds'],
  callId: string,
): AgentMachineContext['holds'] {
  return Object.fromEntries(Object.entries(holds).filter(([id]) => id !== callId))
}

export function requireAgentHold(context: AgentMachineContext, callId: string): AgentHold {
  const hold = context.holds[callId]
  if (hold === undefined) throw new Error(`no hold of call ${callId}`)
  return hold
}
