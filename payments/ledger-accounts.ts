import { unspentFleetLoans, sumFleetLoansOfCall, type FleetLoan } from '../domain/fleet-loans.ts'
import {
  smallerOfTwoMicros,
  asMicros,
  subtractMicros,
  ZERO_MICROS,
  type Micros,
} from '../core/money.ts'
import type { LedgerTransfer, LedgerTransferKind } from '../core/aggregate-commit-row-types.ts'

/** The accounts of the ledger (docs/credits.md). */
export const PLATFORM_TOOLS_ACCOUNT = 'platform:tools'
export const TREASURY_FEES_ACCOUNT = 'treasury:fees'
export const PROMO_GRANTS_ACCOUNT = 'grants:promo'
export const agentPromoAccount = (agentId: string) => `agent:${agentId}:promo`
export const agentCashAccount = (agentId: string) => `agent:${agentId}:cash`
/** Credits held by calls, and the promotional part of them. */
export const agentHeldAccount = (agentId: string) => `agent:${agentId}:held`
export const agentHeldPromoAccount = (agentId: string) => `agent:${agentId}:held:promo`
/** Deposits below the minimum that is credited. */
export const agentSubMinimumDepositsAccount = (agentId: string) => `agent:${agentId}:pending`
export const fleetPoolAccount = (fleetId: string) => `fleet:${fleetId}`
/** The bonus part of a pool: promotional, never cash (docs/decisions.md). */
export const fleetPoolPromoAccount = (fleetId: string) => `fleet:${fleetId}:promo`
/** The escrow of a bounty, and its promotional part, which is never cash (decision 36). */
export const bountyEscrowAccount = (bountyId: string) => `bounty:${bountyId}`
export const bountyEscrowPromoAccount = (bountyId: string) => `bounty:${bountyId}:promo`
/** The calls left of a task pass, and the part of them that promotional credits have paid. */
export const taskPassAccount = (passId: string) => `pass:${passId}`
export const taskPassPromoAccount = (passId: string) => `pass:${passId}:promo`
/** Referral earnings that are not paid out yet: rows only, no snapshot. */
export const referralCashAccount = (agentId: string) => `referral:${agentId}`
export const referralPromoAccount = (agentId: string) => `referral:${agentId}:promo`

export const isPromoAccount = (account: string): boolean => account.endsWith(':promo')

export type PaymentChainName = 'base' | 'bsc' | 'solana' | 'tempo'
/** The source of money from a chain; its balance is minus the arrived amount. */
export const externalChainAccount = (chain: PaymentChainName) => `world:${chain}`
/**
 * Clearing account between an externally paid call and the settlement of its payment: negative by
 * what was delivered and is unsettled, positive by what has settled and was not delivered.
 */
export const paymentClearingAccount = (chain: PaymentChainName) => `owed:${chain}` as const
export const isClearingAccount = (account: string): account is `owed:${string}` =>
  account.startsWith('owed:')

/** An amount, split by origin. */
export interface PromoCashAmounts {
  readonly promo: Micros
  readonly cash: Micros
}

/** The credits a step took from an agent's free credits. */
export const computeFreeCreditsTaken = (
  before: PromoCashAmounts,
  after: PromoCashAmounts,
): PromoCashAmounts => ({
  promo: subtractMicros(before.promo, after.promo),
  cash: subtractMicros(before.cash, after.cash),
})

/**
 * Splits what a hold returns once its call has cost its amount: the agent's own part (own credits
 * pay first, promotional before cash) and the rest of the loans.
 */
export function splitUnusedHold(
  hold: PromoCashAmounts & { readonly loans: readonly FleetLoan[] },
  cost: Micros,
): { own: PromoCashAmounts; loans: readonly FleetLoan[] } {
  const own = computeFreeCreditsTaken(hold, sumFleetLoansOfCall(hold.loans))
  const byOwn = smallerOfTwoMicros(cost, asMicros(own.promo + own.cash))
  return {
    own: subtractPromoFirst(own, byOwn),
    loans: unspentFleetLoans(hold.loans, subtractMicros(cost, byOwn)),
  }
}

/** The rest after paying an amount, promotional credits first. */
function subtractPromoFirst(purse: PromoCashAmounts, amount: Micros): PromoCashAmounts {
  const promo = smallerOfTwoMicros(purse.promo, amount)
  return computeFreeCreditsTaken(purse, { promo, cash: subtractMicros(amount, promo) })
}

export interface DebitSource {
  readonly account: string
  readonly amount: Micros
}

/** Fills the amounts from the sources in order; both sides have the same sum. */
export function drawLedgerTransfersFromSources(
  sources: readonly DebitSource[],
  wanted: readonly { account: string; amount: Micros; kind: LedgerTransferKind }[],
  callId: string,
): LedgerTransfer[] {
  const left = sources.map((source) => ({ ...source }))
  return wanted.flatMap(({ account, amount, kind }) => {
    let open = amount
    const moved: LedgerTransfer[] = []
    for (const source of left) {
      const part = smallerOfTwoMicros(source.amount, open)
      if (part === ZERO_MICROS) continue
      source.amount = subtractMicros(source.amount, part)
      open = subtractMicros(open, part)
      moved.push({ debit: source.account, credit: account, amount: part, kind, callId })
    }
    if (open !== ZERO_MICROS) throw new Error(`sources fall short by ${open} micro-USDC`)
    return moved
  })
}

/** Transfers between one agent's own accounts; zero amounts are dropped. */
export function toNonZeroAgentAccountTransfers(
  parts: readonly { debit: string; credit: string; amount: Micros }[],
  kind: LedgerTransferKind,
  callId: string,
): LedgerTransfer[] {
  return parts
    .filter((part) => part.amount > ZERO_MICROS)
    .map((part) => ({ ...part, kind, callId }))
}
