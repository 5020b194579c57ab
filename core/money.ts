import { invalidInputError } from './errors.ts'

/** Amounts of micro-USDC and their conversions. */

declare const unit: unique symbol

/** An amount of micro-USDC: 1 USDC = 1,000,000. Only JSON uses decimals. */
export type Micros = bigint & { readonly [unit]: 'micro-usdc' }

/** Brands a bigint of micro-USDC. */
export const asMicros = (value: bigint): Micros => value as Micros

export const ZERO_MICROS = asMicros(0n)
const PER_USDC = 1_000_000n
const FULL_SHARE = 10_000n

export const addMicros = (a: Micros, b: Micros): Micros => asMicros(a + b)
export const subtractMicros = (a: Micros, b: Micros): Micros => asMicros(a - b)
export const smallerOfTwoMicros = (a: Micros, b: Micros): Micros => (a < b ? a : b)
export const sumMicros = (amounts: Iterable<Micros>): Micros => {
  let total = 0n
  for (const amount of amounts) total += amount
  return asMicros(total)
}

/**
 * Converts a USDC number with at most six decimals, up to 2^33 USDC, where doubles are exact.
 * Throws `invalid_input` otherwise; never rounds. `pointer` is the JSON pointer in the error.
 */
export function fromUsdc(usdc: number, pointer = ''): Micros {
  const [spelling, whole = '', fraction = ''] = /^(\d+)(?:\.(\d{1,6}))?$/.exec(String(usdc)) ?? []
  if (spelling !== undefined && usdc <= MAX_USDC) {
    return asMicros(BigInt(whole + fraction.padEnd(6, '0')))
  }
  throw invalidInputError(pointer, `must be a USDC amount ${describeUsdcError(usdc)}`)
}

const MAX_USDC = 2 ** 33

const describeUsdcError = (usdc: number): string =>
  usdc >= 0 && usdc <= MAX_USDC
    ? `of at most six decimals, and ${usdc} has more: round it to six, as in ${Math.round(usdc * 1e6) / 1e6}`
    : `from 0 to ${MAX_USDC} (at most six decimals), not ${usdc}`

/** The USDC number of an amount. Exact for all results of `fromUsdc`. */
export const toUsdc = (amount: Micros): number => Number(amount) / Number(PER_USDC)

/** Decimal text with six decimals, exact for any size: `0.030000`. */
export function formatUsdc(amount: Micros): string {
  const digits = (amount < 0n ? -amount : amount).toString().padStart(7, '0')
  return `${amount < 0n ? '-' : ''}${digits.slice(0, -6)}.${digits.slice(-6)}`
}

export interface SplitShare {
  readonly account: string
  readonly amount: Micros
}

/** Splits an amount by basis points. Shares are rounded down; the last account gets the rest. */
export function splitByBps(
  amount: Micros,
  shares: Record<string, bigint>,
  last: string,
): SplitShare[] {
  const parts = Object.entries(shares).map(([account, bps]) => ({
    account,
    amount: asMicros((amount * bps) / FULL_SHARE),
  }))
  const rest = parts.reduce((left, part) => subtractMicros(left, part.amount), amount)
  return [...parts, { account: last, amount: rest }].filter((part) => part.amount > ZERO_MICROS)
}
