import { totalLent, withLoan, type PoolLoan } from '../core/loans.ts'
import { add, least, micros, subtract, sum, ZERO, type Micros } from '../core/money.ts'
import {
  CRITICAL_BALANCE,
  FIRST_DEPOSIT_BONUS_BPS,
  SMALLEST_DEPOSIT,
  WARNING_BALANCE,
} from '../core/prices.ts'
import { keyCapTripped, type KeyCounters, type KeyLimit, type KeySpend } from './key-limits.ts'

export type AgentTier = 'healthy' | 'warning' | 'critical' | 'empty'

/** The payment that settles a call in place of the purse. */
export interface PaymentRef {
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
  readonly payment: PaymentRef | null
  /** The parts of it that pools of fleets lent: no other call can use them, and the rest goes back there. */
  readonly loans: readonly PoolLoan[]
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

export interface AgentContext extends KeyCounters {
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

interface Purse {
  readonly promo: Micros
  readonly cash: Micros
}

export const free = ({ promo, cash }: Purse): Micros => add(promo, cash)
/** The agent's own: what a pool has lent for a call makes nobody richer. */
export const balanceOf = (context: AgentContext): Micros =>
  subtract(add(free(context), context.held), sum(Object.values(context.holds).map(lentFor)))
const lentFor = ({ loans }: AgentHold): Micros => free(totalLent(loans))

export function tierOf(balance: Micros): AgentTier {
  if (balance <= ZERO) return 'empty'
  if (balance <= CRITICAL_BALANCE) return 'critical'
  return balance <= WARNING_BALANCE ? 'warning' : 'healthy'
}

/** What an amount takes from promotional credits, then from cash. */
export function promoFirst(purse: Purse, amount: Micros): Purse {
  const promo = least(purse.promo, amount)
  return { promo, cash: subtract(amount, promo) }
}

export const less = (purse: Purse, part: Purse): Purse => ({
  promo: subtract(purse.promo, part.promo),
  cash: subtract(purse.cash, part.cash),
})

export const more = (purse: Purse, part: Purse): Purse => ({
  promo: add(purse.promo, part.promo),
  cash: add(purse.cash, part.cash),
})

/** The first cap of its key that an amount would exceed, beside what calls of the key hold. */
export const exceededCap = (context: AgentContext, spend: KeySpend): KeyLimit | undefined =>
  keyCapTripped(context, keyHolds(context), spend)

/** The durable holds of an agent, as the caps of its keys count them. */
export const keyHolds = ({ holds }: AgentContext) =>
  Object.values(holds).map((hold) => ({ keyId: hold.keyId, worth: worth(hold), at: hold.at }))

/** All that a hold keeps for its call, whoever pays. */
export const worth = (hold: AgentHold): Micros => add(free(hold), hold.external)

export const funds = (purse: Purse, amount: Micros, reserved: Micros): boolean =>
  amount === ZERO || free(purse) - reserved >= amount

/** Cash not needed by calls in memory, which take promotional credits first. */
export function freeCash({ promo, cash }: Purse, reserved: Micros): Micros {
  return reserved > promo ? micros(cash - (reserved - promo)) : cash
}

export const isLetIn = (hold: AgentHold | undefined): hold is AgentHold & { tool: string } =>
  hold !== undefined && hold.tool !== null

/** What pools have lent for a call that is not let in yet. */
export const loansTo = (context: AgentContext, callId: string): readonly PoolLoan[] => {
  const hold = context.holds[callId]
  return hold === undefined || isLetIn(hold) ? [] : hold.loans
}

/** All of it, whichever pools lent it. */
export const lentTo = (context: AgentContext, callId: string): Purse =>
  totalLent(loansTo(context, callId))

/** What a call still needs of the agent's own money. */
export function ownPart(context: AgentContext, callId: string | undefined, amount: Micros): Micros {
  if (callId === undefined) return amount
  return subtract(amount, least(amount, free(lentTo(context, callId))))
}

/** The part of a hold that is the agent's own; it pays first. */
const ownOf = (hold: AgentHold): Purse => less(hold, totalLent(hold.loans))

/** What of a hold goes back to the agent when its call has cost so much. */
export function ownBack(hold: AgentHold, cost: Micros): Purse {
  if (hold.payment !== null) return NOTHING
  const own = ownOf(hold)
  return less(own, promoFirst(own, least(free(own), cost)))
}

/** The money of a pool, set aside for one call until that is let in. */
export function lentHold(
  context: AgentContext,
  callId: string,
  loan: PoolLoan,
  at: number,
): AgentHold {
  const loans = withLoan(loansTo(context, callId), loan)
  return { ...NO_CALL, ...totalLent(loans), loans, at }
}

const NO_CALL = {
  external: ZERO,
  payment: null,
  keyId: null,
  capped: false,
  taskId: null,
  backpackId: null,
  tool: null,
  idempotencyKey: null,
} as const

export const NOTHING: Purse = { promo: ZERO, cash: ZERO }

/** Below the smallest deposit it accumulates; the first that is credited brings a bonus, once. */
export function deposited(
  context: AgentContext,
  id: string,
  amount: Micros,
): Partial<AgentContext> {
  const pending = add(context.pending, amount)
  if (pending < SMALLEST_DEPOSIT) return { pending }
  const cash = add(context.cash, pending)
  if (context.firstDeposit !== null) return { pending: ZERO, cash }
  const bonus = micros((pending * FIRST_DEPOSIT_BONUS_BPS) / 10_000n)
  const firstDeposit = { id, bonus }
  return { pending: ZERO, cash, promo: add(context.promo, bonus), firstDeposit, activated: true }
}

type Wealth = Pick<AgentContext, 'pending' | 'promo' | 'cash'>

function takenBack(purse: Wealth, amount: Micros): Wealth {
  const pending = least(purse.pending, amount)
  const cash = least(purse.cash, subtract(amount, pending))
  const promo = least(purse.promo, subtract(subtract(amount, pending), cash))
  return {
    pending: subtract(purse.pending, pending),
    cash: subtract(purse.cash, cash),
    promo: subtract(purse.promo, promo),
  }
}

export function undone(context: AgentContext, id: string, amount: Micros): Partial<AgentContext> {
  const { firstDeposit } = context
  if (firstDeposit?.id !== id) return takenBack(context, amount)
  // The bonus first, so that what it leaves of the promotional credits can stand in for cash.
  const promo = subtract(context.promo, least(context.promo, firstDeposit.bonus))
  return { ...takenBack({ ...context, promo }, amount), firstDeposit: null }
}

export function without(holds: AgentContext['holds'], callId: string): AgentContext['holds'] {
  return Object.fromEntries(Object.entries(holds).filter(([id]) => id !== callId))
}

export function heldBy(context: AgentContext, callId: string): AgentHold {
  const hold = context.holds[callId]
  if (hold === undefined) throw new Error(`no hold of call ${callId}`)
  return hold
}
