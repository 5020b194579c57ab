import type { Turn } from '../actors/command.ts'
import { add, least, micros, subtract, sum, ZERO, type Micros } from '../core/money.ts'
import type { PriceShare } from '../core/rows.ts'
import { cashOf, chargeOf, promoOf, restOf, type Purse, type Source } from './ledger.ts'

/** Where a price comes from: an account, and how much of what it gives is promotional. */
export interface Payer extends Source {
  readonly promo: Micros
}

export interface Price {
  readonly payers: readonly Payer[]
  readonly cost: Micros
  readonly callId: string
  readonly referrer: string | null
  /** Parts of it that are other agents'. */
  readonly shares: readonly PriceShare[]
}

/**
 * Books the price of a call. A share is credited to its agent in this commit, through its inbox, so
 * once; it takes cash before promotional credits, and what was promotional stays it.
 */
export function takePrice(turn: Turn, { payers, cost, callId, referrer, shares }: Price): void {
  if (shares.length === 0 || cost === ZERO) {
    for (const transfer of chargeOf(payers, cost, callId, referrer)) turn.transfer(transfer)
    return
  }
  const lots = lotsOf(payers)
  for (const share of shares) credit(turn, lots, share, callId)
  const left = lots.reverse().map(({ account, amount }) => ({ account, amount }))
  const rest = subtract(cost, sum(shares.map(({ amount }) => amount)))
  const withFee = shares.every(({ withoutFee }) => withoutFee !== true)
  for (const transfer of restOf(left, { price: cost, rest, withFee }, callId, referrer))
    turn.transfer(transfer)
}

interface Lot {
  readonly account: string
  readonly promo: boolean
  amount: Micros
}

/** Cash first, promotional credits last. */
function lotsOf(payers: readonly Payer[]): Lot[] {
  const cash = payers.map(({ account, amount, promo }) => ({
    account,
    promo: false,
    amount: subtract(amount, promo),
  }))
  const promo = payers.map((payer) => ({
    account: payer.account,
    promo: true,
    amount: payer.promo,
  }))
  return [...cash, ...promo.reverse()]
}

function credit(
  turn: Turn,
  lots: readonly Lot[],
  { to, amount }: PriceShare,
  callId: string,
): void {
  let open = amount
  let credited: Purse = { promo: ZERO, cash: ZERO }
  for (const lot of lots) {
    const part = least(lot.amount, open)
    if (part === ZERO) continue
    lot.amount = subtract(lot.amount, part)
    open = subtract(open, part)
    const account = lot.promo ? promoOf(to) : cashOf(to)
    turn.transfer({ debit: lot.account, credit: account, amount: part, kind: 'share', callId })
    credited = lot.promo
      ? { ...credited, promo: add(credited.promo, part) }
      : { ...credited, cash: add(credited.cash, part) }
  }
  if (open !== ZERO) throw new Error(`the shares of call ${callId} exceed its price`)
  const event = { type: 'CREDIT', ...credited }
  turn.inbox({ receiver: to, receiverKind: 'agent', id: `share:${callId}:${to}`, event })
}

/** A payer that gives nothing promotional. */
export const inCash = (account: string, amount: Micros): Payer => ({
  account,
  amount,
  promo: micros(0n),
})
