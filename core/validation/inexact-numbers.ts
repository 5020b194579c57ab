/** Finds numbers in JSON text that a double does not hold as they are written. */

/** A JSON string, to skip it, or a number long enough to lose digits. */
const TOKENS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d[\d.]{15,}(?:[eE][+-]?\d+)?/g
export const UNSAFE_INTEGER_MESSAGE =
  'is an integer that JSON numbers cannot hold exactly: send it as a string where the field takes text'
const LONG = /\d[\d.]{15}/
const INTEGER = /^-?\d+$/

/** What numbers become, by their rounded value. */
export interface InexactNumbers {
  /** `9007199254740993` would silently become `9007199254740992`. */
  readonly integers: ReadonlySet<number>
  /** Fractions and numbers with an exponent: `1.0000000000000000001` becomes 1. */
  readonly fractions: ReadonlySet<number>
}

export function findInexactNumbers(json: string): InexactNumbers {
  const [integers, fractions] = [new Set<number>(), new Set<number>()]
  if (!LONG.test(json)) return { integers, fractions }
  for (const [token] of json.matchAll(TOKENS)) {
    if (token.startsWith('"')) continue
    const read = Number(token)
    if (!INTEGER.test(token)) {
      if (toPlainDigits(token) !== toPlainDigits(String(read))) fractions.add(read)
    } else if (!Number.isFinite(read) || BigInt(read) !== BigInt(token)) integers.add(read)
  }
  return { integers, fractions }
}

/** Equal for equal decimals: their digits without zeros at the ends, and the power of ten. */
function toPlainDigits(text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  const digits = whole + fraction
  let end = digits.length
  // A pattern for zeros at the end would search them again from each zero.
  while (digits[end - 1] === '0') end -= 1
  const power = Number(exponent) - fraction.length + digits.length - end
  const kept = digits.slice(0, end).replace(/^-?0*/, '')
  return kept === '' ? '0' : `${kept}e${power}`
}
