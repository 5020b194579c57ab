import type { Turn } from '../actors/command.ts'
import { add, least, micros, subtract, sum, ZERO, type Micros } from '../core/money.ts'
import { PLATFORM_FEE_BPS, REFERRAL_SHARE_BPS } from '../core/prices.ts'
import type { PriceShare, TransferKind } from '../core/rows.ts'
import {
  cashOf,
  GRANTS,
  isPromo,
  PLATFORM,
  promoOf,
  referralOf,
  referralPromoOf,
  TREASURY,
  type Purse,
  type Source,
} from './ledger.ts'

export interface Price {
  /** Where it comes from; together they give exactly the cost. */
  readonly payers: readonly Source[]
  readonly cost: Micros
  readonly callId: string
  /** Who brought the caller, and earns 1 % of it; null before the caller's first deposit. */
  readonly referrer: string | null
  /** Parts of it that are other agents'. */
  readonly shares: readonly PriceShare[]
  /** Whether promotional credits may reach another agent (decision 152). */
  readonly promoTransferable: boolean
}

/** The referrer of an agent that has made its first deposit (decision 26). */
export const referrerOf = (agent: {
  readonly referrer: string | null
  readonly activated: boolean
}): string | null => (agent.activated ? agent.referrer : null)

/**
 * Books the price of a call: the shares of other agents, the 1 % of a referrer out of the tools' part,
 * 18 % rounded up to the treasury, the rest to the tools.
 *
 * A share takes cash before promotional credits. What is promotional never becomes cash: where
 * promotional credits may not reach other agents, that part of a share returns to the grants.
 */
export function takePrice(turn: Turn, price: Price): void {
  const { payers, cost, shares } = price
  const lots = lotsOf(payers)
  if (sum(lots.map(({ amount }) => amount)) !== cost)
    throw new Error(`the payers of call ${price.callId} give another sum than it costs`)
  const withFee = shares.every(({ withoutFee }) => withoutFee !== true)
  for (const share of shares) credit(turn, lots, share, price)
  const left = leftIn(lots)
  const fee = withFee ? least(feeOf(cost), left) : ZERO
  const percent = payReferrer(turn, lots, subtract(left, fee), price)
  const book = (to: string, amount: Micros, kind: TransferKind) => {
    for (const part of draw(lots.toReversed(), amount))
      turn.transfer({
        debit: part.account,
        credit: to,
        amount: part.amount,
        kind,
        callId: price.callId,
      })
  }
  book(PLATFORM, subtract(subtract(left, fee), percent), 'charge')
  book(TREASURY, fee, 'fee')
}

const BPS = 10_000n
const feeOf = (cost: Micros): Micros =>
  subtract(cost, micros((cost * (BPS - PLATFORM_FEE_BPS)) / BPS))

/** What a payer has left to give. */
interface Lot {
  readonly account: string
  amount: Micros
}

/** Cash first, promotional credits last. */
function lotsOf(payers: readonly Source[]): Lot[] {
  const lots = payers.map(({ account, amount }) => ({ account, amount }))
  const promo = lots.filter(({ account }) => isPromo(account)).toReversed()
  return [...lots.filter(({ account }) => !isPromo(account)), ...promo]
}

const leftIn = (lots: readonly Lot[]): Micros => sum(lots.map(({ amount }) => amount))

/** Takes an amount out of the lots, in their order. */
function draw(lots: readonly Lot[], amount: Micros): Source[] {
  let open = amount
  const parts: Source[] = []
  for (const lot of lots) {
    const part = least(lot.amount, open)
    if (part === ZERO) continue
    lot.amount = subtract(lot.amount, part)
    open = subtract(open, part)
    parts.push({ account: lot.account, amount: part })
  }
  if (open !== ZERO) throw new Error(`the payers of a price fall short by ${open} micro-USDC`)
  return parts
}

/** Moves a part of a price to another agent's two accounts; resolves to what reaches it. */
function give(
  turn: Turn,
  parts: readonly Source[],
  to: { readonly cash: string; readonly promo: string },
  kind: TransferKind & ('share' | 'charge'),
  { callId, promoTransferable }: Price,
): Purse {
  const got: Record<keyof Purse, Micros> = { promo: ZERO, cash: ZERO }
  for (const { account, amount } of parts) {
    const nature = isPromo(account) ? 'promo' : 'cash'
    const stays = nature === 'promo' && !promoTransferable
    const credit = stays ? GRANTS : to[nature]
    turn.transfer({ debit: account, credit, amount, kind, callId, promoAllowed: promoTransferable })
    if (!stays) got[nature] = add(got[nature], amount)
  }
  return got
}

/** Credits the share in this commit, through the inbox of its agent, so once. */
function credit(turn: Turn, lots: readonly Lot[], share: PriceShare, price: Price): void {
  const { to, written } = share
  // Of a call that was waived nobody gets anything.
  const amount = price.cost === ZERO ? ZERO : share.amount
  if (amount > leftIn(lots)) throw new Error(`the shares of call ${price.callId} exceed its price`)
  const accounts = { cash: cashOf(to), promo: promoOf(to) }
  const got = give(turn, draw(lots, amount), accounts, 'share', price)
  const credited = add(got.promo, got.cash)
  if (credited > ZERO) {
    const event = { type: 'CREDIT', ...got }
    turn.inbox({ receiver: to, receiverKind: 'agent', id: `share:${price.callId}:${to}`, event })
  }
  const { rows = [], events = [] } = written?.(credited) ?? {}
  for (const { table, row } of rows) turn.row(table, row)
  for (const event of events) turn.event(event)
}

/**
 * One percent of what is paid in cash, as cash, and of what is paid in promotional credits, as such;
 * resolves to what it takes of the tools' part.
 */
function payReferrer(turn: Turn, lots: readonly Lot[], tools: Micros, price: Price): Micros {
  const { referrer, payers } = price
  if (referrer === null) return ZERO
  const accounts = { cash: referralOf(referrer), promo: referralPromoOf(referrer) }
  let open = tools
  for (const promo of [false, true]) {
    const of = (parts: readonly Source[]) =>
      parts.filter(({ account }) => isPromo(account) === promo)
    const paid = sum(of(payers).map(({ amount }) => amount))
    const own = lots.filter(({ account }) => isPromo(account) === promo)
    const percent = micros((paid * REFERRAL_SHARE_BPS) / BPS)
    const part = least(least(percent, leftIn(own)), open)
    give(turn, draw(own, part), accounts, 'charge', price)
    open = subtract(open, part)
  }
  return subtract(tools, open)
}
