import { add, least, subtract, sum, ZERO, type Micros } from './money.ts'

/** What the pool of one fleet has lent for one call; it is spent by that call or goes back there. */
export interface PoolLoan {
  readonly fleetId: string
  readonly promo: Micros
  readonly cash: Micros
}

/** All that was lent for a call, by whichever pools. */
export const totalLent = (loans: readonly PoolLoan[]) => ({
  promo: sum(loans.map(({ promo }) => promo)),
  cash: sum(loans.map(({ cash }) => cash)),
})

/** The loans of a call with one more; what a pool lends in several draws is one loan. */
export function withLoan(loans: readonly PoolLoan[], loan: PoolLoan): readonly PoolLoan[] {
  if (!loans.some(({ fleetId }) => fleetId === loan.fleetId)) return [...loans, loan]
  return loans.map((known) =>
    known.fleetId === loan.fleetId
      ? { ...known, promo: add(known.promo, loan.promo), cash: add(known.cash, loan.cash) }
      : known,
  )
}

/**
 * What each pool gets back when the loans of a call have paid so much: the promotional credits of all
 * of them are spent first, then the cash, and of each kind that of the oldest loan first.
 */
export function restOfLoans(loans: readonly PoolLoan[], spent: Micros): readonly PoolLoan[] {
  let promo = least(totalLent(loans).promo, spent)
  let cash = subtract(spent, promo)
  return loans.map((loan) => {
    const byPromo = least(loan.promo, promo)
    const byCash = least(loan.cash, cash)
    promo = subtract(promo, byPromo)
    cash = subtract(cash, byCash)
    return {
      ...loan,
      promo: subtract(loan.promo, byPromo),
      cash: subtract(loan.cash, byCash),
    }
  })
}

export const NO_LOANS: readonly PoolLoan[] = []

/** Whether anything was lent. */
export const isLent = ({ promo, cash }: Pick<PoolLoan, 'promo' | 'cash'>): boolean =>
  promo > ZERO || cash > ZERO
