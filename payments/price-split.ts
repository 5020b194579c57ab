import type { CommandContext } from '../actors/aggregate-command-types.ts'
import {
  addMicros,
  smallerOfTwoMicros,
  asMicros,
  subtractMicros,
  sumMicros,
  ZERO_MICROS,
  type Micros,
} from '../core/money.ts'
import { PLATFORM_FEE_BPS, REFERRAL_SHARE_BPS } from '../domain/pricing.ts'
import type {
  CallPriceSource,
  PriceShare,
  LedgerTransferKind,
} from '../core/aggregate-commit-row-types.ts'
import {
  agentCashAccount,
  agentHeldAccount,
  agentHeldPromoAccount,
  isClearingAccount,
  PROMO_GRANTS_ACCOUNT,
  isPromoAccount,
  PLATFORM_TOOLS_ACCOUNT,
  agentPromoAccount,
  referralCashAccount,
  referralPromoAccount,
  TREASURY_FEES_ACCOUNT,
  type PromoCashAmounts,
  type DebitSource,
} from './ledger-accounts.ts'

/** Splits the price of a call among shares, referrer, treasury and tools. */

export interface CallPriceBookingInput {
  /** The debited accounts; their amounts add up to the cost. */
  readonly payers: readonly DebitSource[]
  readonly cost: Micros
  readonly callId: string
  /** The referrer of the caller, who earns 1 % of it; null before the caller's first deposit. */
  readonly referrer: string | null
  /** Parts of it that go to other agents. */
  readonly shares: readonly PriceShare[]
  /** Whether promotional credits may reach another agent (decision 152). */
  readonly promoTransferable: boolean
}

/** The referrer of an agent that has made its first deposit (decision 26). */
export const referrerAfterFirstDeposit = (agent: {
  readonly referrer: string | null
  readonly activated: boolean
}): string | null => (agent.activated ? agent.referrer : null)

/**
 * Books the price of a call: the shares of other agents, the 1 % of a referrer from the tools'
 * part, 18 % rounded up to the treasury, half of which goes to the creator of the calling agent, the rest to the tools.
 *
 * A share takes cash before promotional credits. Promotional credits never become cash: if they may
 * not reach other agents, that part of a share returns to the grants.
 */
export function bookCallPrice(ctx: CommandContext, price: CallPriceBookingInput): void {
  const { payers, cost, shares } = price
  const lots = sortCashFirst(payers)
  if (sumMicros(lots.map(({ amount }) => amount)) !== cost)
    throw new Error(`the payers of call ${price.callId} give another sum than it costs`)
  const withFee = shares.every(({ withoutFee }) => withoutFee !== true)
  for (const share of shares) creditShare(ctx, lots, share, price)
  const left = sumRemainders(lots)
  const fee = withFee ? smallerOfTwoMicros(platformFee(cost), left) : ZERO_MICROS
  payReferrer(ctx, lots, subtractMicros(left, fee), price)
  const given = payParent(ctx, lots, fee, price)
  bookRest(ctx, lots, subtractMicros(fee, given), price.callId)
}

/** Books what the lots still hold: the fee to the treasury, the rest to the tools. */
function bookRest(
  ctx: CommandContext,
  lots: readonly PriceSourceRemainder[],
  fee: Micros,
  callId: string,
): void {
  const amount = sumRemainders(lots)
  if (amount === ZERO_MICROS) return
  const source = findCommonSource(ctx.aggregateId, lots)
  if (source !== null) {
    const promo = sumRemainders(lots.filter(({ account }) => isPromoAccount(account)))
    return ctx.price({ callId, source, amount, fee, promo })
  }
  const book = (to: string, part: Micros, kind: LedgerTransferKind) => {
    for (const taken of takeFromSources(lots.toReversed(), part))
      ctx.transfer({ debit: taken.account, credit: to, amount: taken.amount, kind, callId })
  }
  book(PLATFORM_TOOLS_ACCOUNT, subtractMicros(amount, fee), 'charge')
  book(TREASURY_FEES_ACCOUNT, fee, 'fee')
}

/** The source of all lots; null for a price that free and held credits pay together. */
function findCommonSource(
  owner: string,
  lots: readonly PriceSourceRemainder[],
): CallPriceSource | null {
  const sources = new Set(
    lots
      .filter(({ amount }) => amount > ZERO_MICROS)
      .map(({ account }) => sourceOf(owner, account)),
  )
  const [source = null] = sources
  return sources.size === 1 ? source : null
}

function sourceOf(owner: string, account: string): CallPriceSource | null {
  if (account === agentPromoAccount(owner) || account === agentCashAccount(owner)) return 'free'
  if (account === agentHeldPromoAccount(owner) || account === agentHeldAccount(owner)) return 'held'
  return isClearingAccount(account) ? account : null
}

const BPS_PER_WHOLE = 10_000n
const platformFee = (cost: Micros): Micros =>
  subtractMicros(cost, asMicros((cost * (BPS_PER_WHOLE - PLATFORM_FEE_BPS)) / BPS_PER_WHOLE))

/** What is left of a payer's source. */
interface PriceSourceRemainder {
  readonly account: string
  amount: Micros
}

/** Cash first, promotional credits last. */
function sortCashFirst(payers: readonly DebitSource[]): PriceSourceRemainder[] {
  const lots = payers.map(({ account, amount }) => ({ account, amount }))
  const promo = lots.filter(({ account }) => isPromoAccount(account)).toReversed()
  return [...lots.filter(({ account }) => !isPromoAccount(account)), ...promo]
}

const sumRemainders = (lots: readonly PriceSourceRemainder[]): Micros =>
  sumMicros(lots.map(({ amount }) => amount))

/** Takes an amount from the lots, in order. */
function takeFromSources(lots: readonly PriceSourceRemainder[], amount: Micros): DebitSource[] {
  let open = amount
  const parts: DebitSource[] = []
  for (const lot of lots) {
    const part = smallerOfTwoMicros(lot.amount, open)
    if (part === ZERO_MICROS) continue
    lot.amount = subtractMicros(lot.amount, part)
    open = subtractMicros(open, part)
    parts.push({ account: lot.account, amount: part })
  }
  if (open !== ZERO_MICROS)
    throw new Error(`the payers of a price fall short by ${open} micro-USDC`)
  return parts
}

/** Moves a part of a price to another agent's two accounts; returns what reaches it. */
function transferShare(
  ctx: CommandContext,
  parts: readonly DebitSource[],
  to: { readonly cash: string; readonly promo: string },
  kind: LedgerTransferKind & ('share' | 'charge' | 'fee'),
  { callId, promoTransferable }: CallPriceBookingInput,
): PromoCashAmounts {
  const got: Record<keyof PromoCashAmounts, Micros> = { promo: ZERO_MICROS, cash: ZERO_MICROS }
  for (const { account, amount } of parts) {
    const nature = isPromoAccount(account) ? 'promo' : 'cash'
    const stays = nature === 'promo' && !promoTransferable
    const credit = stays ? PROMO_GRANTS_ACCOUNT : to[nature]
    ctx.transfer({ debit: account, credit, amount, kind, callId, promoAllowed: promoTransferable })
    if (!stays) got[nature] = addMicros(got[nature], amount)
  }
  return got
}

/** Credits the share exactly once: in this commit, through the inbox of its agent. */
function creditShare(
  ctx: CommandContext,
  lots: readonly PriceSourceRemainder[],
  share: PriceShare,
  price: CallPriceBookingInput,
): void {
  const { to, stagedWrites } = share
  // A waived call pays no shares.
  const amount = price.cost === ZERO_MICROS ? ZERO_MICROS : share.amount
  if (amount > sumRemainders(lots))
    throw new Error(`the shares of call ${price.callId} exceed its price`)
  const accounts = { cash: agentCashAccount(to), promo: agentPromoAccount(to) }
  const got = transferShare(ctx, takeFromSources(lots, amount), accounts, 'share', price)
  const credited = addMicros(got.promo, got.cash)
  if (credited > ZERO_MICROS) {
    const event = { type: 'CREDIT', ...got }
    ctx.inbox({ receiver: to, receiverKind: 'agent', id: `share:${price.callId}:${to}`, event })
  }
  const { rows = [], events = [] } = stagedWrites?.(credited) ?? {}
  for (const { table, row } of rows) ctx.row(table, row)
  for (const event of events) ctx.event(event)
}

/**
 * Pays one percent of the cash part as cash and of the promotional part as promotional credits, out
 * of the tools' part.
 */
function payReferrer(
  ctx: CommandContext,
  lots: readonly PriceSourceRemainder[],
  tools: Micros,
  price: CallPriceBookingInput,
): void {
  const { referrer, payers } = price
  if (referrer === null) return
  const accounts = { cash: referralCashAccount(referrer), promo: referralPromoAccount(referrer) }
  let open = tools
  for (const promo of [false, true]) {
    const of = (parts: readonly DebitSource[]) =>
      parts.filter(({ account }) => isPromoAccount(account) === promo)
    const paid = sumMicros(of(payers).map(({ amount }) => amount))
    const own = lots.filter(({ account }) => isPromoAccount(account) === promo)
    const percent = asMicros((paid * REFERRAL_SHARE_BPS) / BPS_PER_WHOLE)
    const part = smallerOfTwoMicros(smallerOfTwoMicros(percent, sumRemainders(own)), open)
    transferShare(ctx, takeFromSources(own, part), accounts, 'charge', price)
    open = subtractMicros(open, part)
  }
}

/**
 * Pays half of the fee, rounded down, to the agent whose bundle made the caller (decision 239). Cash
 * comes first, as in the fee itself. Returns the part that the treasury does not get.
 */
function payParent(
  ctx: CommandContext,
  lots: readonly PriceSourceRemainder[],
  fee: Micros,
  price: CallPriceBookingInput,
): Micros {
  const { aggregateId } = ctx
  if (!ctx.has('agent', aggregateId)) return ZERO_MICROS
  const { parent } = ctx.snapshotOf('agent', aggregateId).context
  if (parent === null) return ZERO_MICROS
  const half = asMicros(fee / 2n)
  const accounts = { cash: referralCashAccount(parent), promo: referralPromoAccount(parent) }
  transferShare(ctx, takeFromSources(lots, half), accounts, 'fee', price)
  return half
}
