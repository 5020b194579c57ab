import {
  addMicros,
  minMicros,
  subtractMicros,
  sumMicros,
  ZERO,
  type Micros,
} from '../core/money.ts'

/** What the pool of one fleet has lent for one call; it is spent by that call or goes back there. */
export interface FleetLoan {
  readonly fleetId: string
  readonly promo: Micros
  readonly cash: Micros
}

/** All that was lent for a call, by whichever pools. */
export const totalFleetLoans = (loans: readonly FleetLoan[]) => ({
  promo: sumMicros(loans.map(({ promo }) => promo)),
  cash: sumMicros(loans.map(({ cash }) => cash)),
})

/** The loans of a call with one more; what a pool lends in several draws is one loan. */
export function addFleetLoan(loans: readonly FleetLoan[], loan: FleetLoan): readonly FleetLoan[] {
  if (!loans.some(({ fleetId }) => fleetId === loan.fleetId)) return [...loans, loan]
  return loans.map((known) =>
    known.fleetId === loan.fleetId
      ? {
          ...known,
          promo: addMicros(known.promo, loan.promo),
          cash: addMicros(known.cash, loan.cash),
        }
      : known,
  )
}

/**
 * What each pool gets back when the loans of a call have paid so much: the promotional credits of all
 * of them are spent first, then the cash, and of each kind that of the oldest loan first.
 */
export function unspentFleetLoans(
  loans: readonly FleetLoan[],
  spent: Micros,
): readonly FleetLoan[] {
  let promo = minMicros(totalFleetLoans(loans).promo, spent)
  let cash = subtractMicros(spent, promo)
  return loans.map((loan) => {
    const byPromo = minMicros(loan.promo, promo)
    const byCash = minMicros(loan.cash, cash)
    promo = subtractMicros(promo, byPromo)
    cash = subtractMicros(cash, byCash)
    return {
      ...loan,
      promo: subtractMicros(loan.promo, byPromo),
      cash: subtractMicros(loan.cash, byCash),
    }
  })
}

export const NO_FLEET_LOANS: readonly FleetLoan[] = []

/** Whether anything was lent. */
export const isNonZeroLoan = ({ promo, cash }: Pick<FleetLoan, 'promo' | 'cash'>): boolean =>
  promo > ZERO || cash > ZERO
