/** Whether a decimal number is a multiple of another, as JSON writes them (decision 465). */

/**
 * Exact, unlike a division of binary fractions, which finds 19.99 no multiple of 0.01 and every number above 2^53 one of
 * any fraction.
 */
export function isDecimalMultiple(value: number, of: number): boolean {
  if (Number.isInteger(value) && Number.isInteger(of)) return value % of === 0
  const [a, b] = [toDecimal(value), toDecimal(of)]
  const exponent = Math.min(a.exponent, b.exponent)
  return scaled(a, exponent) % scaled(b, exponent) === 0n
}

interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

/** The digits of the shortest text that means this number. */
function toDecimal(value: number): Decimal {
  const [mantissa = '', power = '0'] = String(value).split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length }
}

const scaled = ({ digits, exponent }: Decimal, to: number): bigint =>
  digits * 10n ** BigInt(exponent - to)
