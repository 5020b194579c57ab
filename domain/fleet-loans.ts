import {
  addMicros,
  smallerOfTwoMicros,
  subtractMicros,
  sumMicros,
  ZERO_MICROS,
  type Micros,
} from '../core/money.ts'

/** A loan of a fleet pool for one call. The unspent part returns to that pool. */
export interface FleetLoan {
  readonly fleetId: string
  readonly promo: Micros
  readonly cash: Micros
}

/** Sum of all loans of a call. */
export const sumFleetLoansOfCall = (loans: readonly FleetLoan[]) => ({
  promo: sumMicros(loans.map(({ promo }) => promo)),
  cash: sumMicros(loans.map(({ cash }) => cash)),
})

/** Adds a loan. Several draws from one pool become one loan. */
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
 * The unspent part of each loan. Promotional credits of all loans are spent first, then cash;
 * within each, the oldest loan first.
 */
export function unspentFleetLoans(
  loans: readonly FleetLoan[],
  spent: Micros,
): readonly FleetLoan[] {
  let promo = smallerOfTwoMicros(sumFleetLoansOfCall(loans).promo, spent)
  let cash = subtractMicros(spent, promo)
  return loans.map((loan) => {
    const byPromo = smallerOfTwoMicros(loan.promo, promo)
    const byCash = smallerOfTwoMicros(loan.cash, cash)
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

/** True unless the loan is zero. */
export const isNonZeroLoan = ({ promo, cash }: Pick<FleetLoan, 'promo' | 'cash'>): boolean =>
  promo > ZERO_MICROS || cash > ZERO_MICROS
