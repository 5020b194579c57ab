import { totalFleetLoans, addFleetLoan, type FleetLoan } from '../../domain/fleet-loans.ts'
import {
  addMicros,
  minMicros,
  micros,
  subtractMicros,
  sumMicros,
  ZERO,
  type Micros,
} from '../../core/money.ts'
import {
  CRITICAL_BALANCE_MICROS,
  FIRST_DEPOSIT_BONUS_BPS,
  MIN_DEPOSIT,
  WARNING_BALANCE_MICROS,
} from '../../domain/pricing.ts'
import {
  findExceededKeyCap,
  type KeySpendCounters,
  type KeyLimit,
  type KeySpendRequest,
} from './key-limits.ts'

export type AgentBalanceTier = 'healthy' | 'warning' | 'critical' | 'empty'

/** The payment that settles a call in place of the purse. */
export interface HoldPaymentRef {
  /** Its aggregate. */
  readonly payer: string
  readonly settlement: string
  readonly chain: 'base' | 'bsc' | 'solana' | 'tempo'
}

/** Money set aside for one running call, by where it came from. */
export interface AgentHold {
  readonly promo: Micros
  readonly cash: Micros
  /** Paid on another rail: it counts in every limit, and is not of this purse. */
  readonly external: Micros
  readonly payment: HoldPaymentRef | null
  /** The parts of it that pools of fleets lent: no other call can use them, and the rest goes back there. */
  readonly loans: readonly FleetLoan[]
  readonly keyId: string | null
  /** The key has a spending cap, so a capture counts against it. */
  readonly capped: boolean
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly at: number
  /** Null while a pool has lent for a call that is not let in yet. */
  readonly tool: string | null
  readonly idempotencyKey: string | null
}

export interface AgentContext extends KeySpendCounters {
  readonly agentId: string
  /** Free promotional credits; held money has already left them. */
  readonly promo: Micros
  /** Free deposited credits; held money has already left them. */
  readonly cash: Micros
  readonly held: Micros
  readonly holds: Readonly<Record<string, AgentHold>>
  /** Deposits below the smallest one that is credited. */
  readonly pending: Micros
  /** The first credited deposit and the bonus it brought; null before it. */
  readonly firstDeposit: { readonly id: string; readonly bonus: Micros } | null
  /** It has had a credited deposit at some time, undone or not: who referred it has been rewarded. */
  readonly activated: boolean
  /** Who earns a share of this agent's calls. */
  readonly referrer: string | null
  /** Whose pool it draws on when it is short; null in no fleet. */
  readonly fleetId: string | null
}

interface PromoCash {
  readonly promo: Micros
  readonly cash: Micros
}

export const sumPromoAndCash = ({ promo, cash }: PromoCash): Micros => addMicros(promo, cash)
/** The agent's own: what a pool has lent for a call makes nobody richer. */
export const agentOwnBalance = (context: AgentContext): Micros =>
  subtractMicros(
    addMicros(sumPromoAndCash(context), context.held),
    sumMicros(Object.values(context.holds).map(lentAmountOfHold)),
  )
const lentAmountOfHold = ({ loans }: AgentHold): Micros => sumPromoAndCash(totalFleetLoans(loans))

export function balanceTier(balance: Micros): AgentBalanceTier {
  if (balance <= ZERO) return 'empty'
  if (balance <= CRITICAL_BALANCE_MICROS) return 'critical'
  return balance <= WARNING_BALANCE_MICROS ? 'warning' : 'healthy'
}

/** What an amount takes from promotional credits, then from cash. */
export function takePromoFirst(purse: PromoCash, amount: Micros): PromoCash {
  const promo = minMicros(purse.promo, amount)
  return { promo, cash: subtractMicros(amount, promo) }
}

export const subtractPromoCash = (purse: PromoCash, part: PromoCash): PromoCash => ({
  promo: subtractMicros(purse.promo, part.promo),
  cash: subtractMicros(purse.cash, part.cash),
})

export const addPromoCash = (purse: PromoCash, part: PromoCash): PromoCash => ({
  promo: addMicros(purse.promo, part.promo),
  cash: addMicros(purse.cash, part.cash),
})

/** The first cap of its key that an amount would exceed, beside what calls of the key hold. */
export const findAgentExceededKeyCap = (
  context: AgentContext,
  spend: KeySpendRequest,
): KeyLimit | undefined => findExceededKeyCap(context, agentKeyHolds(context), spend)

/** The durable holds of an agent, as the caps of its keys count them. */
export const agentKeyHolds = ({ holds }: AgentContext) =>
  Object.values(holds).map((hold) => ({
    keyId: hold.keyId,
    worth: agentHoldTotal(hold),
    at: hold.at,
  }))

/** All that a hold keeps for its call, whoever pays. */
export const agentHoldTotal = (hold: AgentHold): Micros =>
  addMicros(sumPromoAndCash(hold), hold.external)

export const coversAmount = (purse: PromoCash, amount: Micros, reserved: Micros): boolean =>
  amount === ZERO || sumPromoAndCash(purse) - reserved >= amount

/** Cash not needed by calls in memory, which take promotional credits first. */
export function spendableCash({ promo, cash }: PromoCash, reserved: Micros): Micros {
  return reserved > promo ? micros(cash - (reserved - promo)) : cash
}

export const isAdmittedHold = (hold: AgentHold | undefined): hold is AgentHold & { tool: string } =>
  hold !== undefined && hold.tool !== null

/** What pools have lent for a call that is not let in yet. */
export const pendingCallLoans = (context: AgentContext, callId: string): readonly FleetLoan[] => {
  const hold = context.holds[callId]
  return hold === undefined || isAdmittedHold(hold) ? [] : hold.loans
}

/** All of it, whichever pools lent it. */
export const pendingLentAmount = (context: AgentContext, callId: string): PromoCash =>
  totalFleetLoans(pendingCallLoans(context, callId))

/** What a call still needs of the agent's own money. */
export function ownShareOfAmount(
  context: AgentContext,
  callId: string | undefined,
  amount: Micros,
): Micros {
  if (callId === undefined) return amount
  return subtractMicros(
    amount,
    minMicros(amount, sumPromoAndCash(pendingLentAmount(context, callId))),
  )
}

/** The part of a hold that is the agent's own; it pays first. */
const ownShareOfHold = (hold: AgentHold): PromoCash =>
  subtractPromoCash(hold, totalFleetLoans(hold.loans))

/** What of a hold goes back to the agent when its call has cost so much. */
export function ownRefund(hold: AgentHold, cost: Micros): PromoCash {
  if (hold.payment !== null) return ZERO_PROMO_CASH
  const own = ownShareOfHold(hold)
  return subtractPromoCash(own, takePromoFirst(own, minMicros(sumPromoAndCash(own), cost)))
}

/** The money of a pool, set aside for one call until that is let in. */
export function createLentHold(
  context: AgentContext,
  callId: string,
  loan: FleetLoan,
  at: number,
): AgentHold {
  const loans = addFleetLoan(pendingCallLoans(context, callId), loan)
  return { ...UNADMITTED_CALL, ...totalFleetLoans(loans), loans, at }
}

const UNADMITTED_CALL = {
  external: ZERO,
  payment: null,
  keyId: null,
  capped: false,
  taskId: null,
  backpackId: null,
  tool: null,
  idempotencyKey: null,
} as const

export const ZERO_PROMO_CASH: PromoCash = { promo: ZERO, cash: ZERO }

/** Below the smallest deposit it accumulates; the first that is credited brings a bonus, once. */
export function applyDepositToAgent(
  context: AgentContext,
  id: string,
  amount: Micros,
): Partial<AgentContext> {
  const pending = addMicros(context.pending, amount)
  if (pending < MIN_DEPOSIT) return { pending }
  const cash = addMicros(context.cash, pending)
  if (context.firstDeposit !== null) return { pending: ZERO, cash }
  const bonus = micros((pending * FIRST_DEPOSIT_BONUS_BPS) / 10_000n)
  const firstDeposit = { id, bonus }
  return {
    pending: ZERO,
    cash,
    promo: addMicros(context.promo, bonus),
    firstDeposit,
    activated: true,
  }
}

type AgentFreeBalance = Pick<AgentContext, 'pending' | 'promo' | 'cash'>

function subtractReversedDeposit(purse: AgentFreeBalance, amount: Micros): AgentFreeBalance {
  const pending = minMicros(purse.pending, amount)
  const cash = minMicros(purse.cash, subtractMicros(amount, pending))
  const promo = minMicros(purse.promo, subtractMicros(subtractMicros(amount, pending), cash))
  return {
    pending: subtractMicros(purse.pending, pending),
    cash: subtractMicros(purse.cash, cash),
    promo: subtractMicros(purse.promo, promo),
  }
}

export function reverseAgentDeposit(
  context: AgentContext,
  id: string,
  amount: Micros,
): Partial<AgentContext> {
  const { firstDeposit } = context
  if (firstDeposit?.id !== id) return subtractReversedDeposit(context, amount)
  // The bonus first, so that what it leaves of the promotional credits can stand in for cash.
  const promo = subtractMicros(context.promo, minMicros(context.promo, firstDeposit.bonus))
  return { ...subtractReversedDeposit({ ...context, promo }, amount), firstDeposit: null }
}

export function omitHold(holds: AgentContext['holds'], callId: string): AgentContext['holds'] {
  return Object.fromEntries(Object.entries(holds).filter(([id]) => id !== callId))
}

export function requireAgentHold(context: AgentContext, callId: string): AgentHold {
  const hold = context.holds[callId]
  if (hold === undefined) throw new Error(`no hold of call ${callId}`)
  return hold
}
