import { restOfLoans, totalLent, type PoolLoan } from '../core/loans.ts'
import { least, micros, subtract, ZERO, type Micros } from '../core/money.ts'
import type { Transfer, TransferKind } from '../core/rows.ts'

/** The accounts of the ledger (docs/credits.md). */
export const PLATFORM = 'platform:tools'
export const TREASURY = 'treasury:fees'
export const GRANTS = 'grants:promo'
export const promoOf = (agentId: string) => `agent:${agentId}:promo`
export const cashOf = (agentId: string) => `agent:${agentId}:cash`
/** What calls hold, and the promotional part of it. */
export const heldOf = (agentId: string) => `agent:${agentId}:held`
export const heldPromoOf = (agentId: string) => `agent:${agentId}:held:promo`
/** Deposits below the smallest that is credited. */
export const pendingOf = (agentId: string) => `agent:${agentId}:pending`
export const fleetOf = (fleetId: string) => `fleet:${fleetId}`
/** The part of a pool that came as a bonus: promotional, and never cash (docs/decisions.md). */
export const fleetPromoOf = (fleetId: string) => `fleet:${fleetId}:promo`
/** The escrow of a bounty, and the promotional part of it, which is never cash (decision 36). */
export const bountyOf = (bountyId: string) => `bounty:${bountyId}`
export const bountyPromoOf = (bountyId: string) => `bounty:${bountyId}:promo`
/** What a referrer's agents have brought and nobody has paid out yet: rows only, no snapshot. */
export const referralOf = (agentId: string) => `referral:${agentId}`
export const referralPromoOf = (agentId: string) => `referral:${agentId}:promo`

export const isPromo = (account: string): boolean => account.endsWith(':promo')

export type ChainName = 'base' | 'bsc' | 'solana' | 'tempo'
/** Where money from a chain comes from: below zero by what has arrived. */
export const worldOf = (chain: ChainName) => `world:${chain}`
/**
 * Between a call that another rail pays and the settlement of that payment: below zero by what was
 * delivered and has not settled, above it by what has settled and was not delivered.
 */
export const owedOf = (chain: ChainName) => `owed:${chain}`

/** An amount by where it came from. */
export interface Purse {
  readonly promo: Micros
  readonly cash: Micros
}

/** What a step took from an agent's free credits. */
export const taken = (before: Purse, after: Purse): Purse => ({
  promo: subtract(before.promo, after.promo),
  cash: subtract(before.cash, after.cash),
})

/**
 * What of a hold goes back when its call has cost so much: to the agent, whose own money pays first
 * (promotional credits before cash), and to the pools that lent the rest of it.
 */
export function leftOver(
  hold: Purse & { readonly loans: readonly PoolLoan[] },
  cost: Micros,
): { own: Purse; loans: readonly PoolLoan[] } {
  const own = taken(hold, totalLent(hold.loans))
  const byOwn = least(cost, micros(own.promo + own.cash))
  return { own: rest(own, byOwn), loans: restOfLoans(hold.loans, subtract(cost, byOwn)) }
}

/** What an amount leaves of a purse, promotional credits first. */
function rest(purse: Purse, amount: Micros): Purse {
  const promo = least(purse.promo, amount)
  return taken(purse, { promo, cash: subtract(amount, promo) })
}

export interface Source {
  readonly account: string
  readonly amount: Micros
}

/** Fills the wanted amounts from the sources in order; both sides have the same sum. */
export function pour(
  sources: readonly Source[],
  wanted: readonly { account: string; amount: Micros; kind: TransferKind }[],
  callId: string,
): Transfer[] {
  const left = sources.map((source) => ({ ...source }))
  return wanted.flatMap(({ account, amount, kind }) => {
    let open = amount
    const moved: Transfer[] = []
    for (const source of left) {
      const part = least(source.amount, open)
      if (part === ZERO) continue
      source.amount = subtract(source.amount, part)
      open = subtract(open, part)
      moved.push({ debit: source.account, credit: account, amount: part, kind, callId })
    }
    if (open !== ZERO) throw new Error(`sources fall short by ${open} micro-USDC`)
    return moved
  })
}

/** The movements between one agent's own accounts; parts of zero leave no row. */
export function shift(
  parts: readonly { debit: string; credit: string; amount: Micros }[],
  kind: TransferKind,
  callId: string,
): Transfer[] {
  return parts.filter((part) => part.amount > ZERO).map((part) => ({ ...part, kind, callId }))
}
