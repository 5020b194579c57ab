/** Exact arithmetic on expressions in text. */

/** An exact fraction; the denominator is positive. */
interface Fraction {
  readonly over: bigint
  readonly under: bigint
}

const MAX_EXPRESSION_CHARS = 200
/** Limit of digits of numerator and denominator. */
const MAX_FRACTION_DIGITS = 400n
const MAX_FRACTION_PART = 10n ** MAX_FRACTION_DIGITS
const RESULT_DECIMALS = 12n

/**
 * Calculates an expression of numbers, + - * / ^ % and brackets, exactly where its decimals end within
 * twelve. Returns null for other text, a division by zero, and too large values. Never evaluates code.
 */
export function calculateExpression(text: string): string | null {
  const tokens = text
    .slice(0, MAX_EXPRESSION_CHARS + 1)
    .match(/\d[\d,_]*(?:\.\d+)?|\.\d+|\*\*|[-+*/^%()×÷]|\S/g)
  if (
    tokens === null ||
    text.length > MAX_EXPRESSION_CHARS ||
    !tokens.some((one) => /[-+*/^%×÷]/.test(one))
  )
    return null
  const parser = { tokens: tokens.map(normalizeToken), at: 0 }
  try {
    const value = parseSum(parser)
    return parser.at === parser.tokens.length ? formatFraction(value) : null
  } catch (error) {
    if (error instanceof NotAnExpressionError) return null
    throw error
  }
}

class NotAnExpressionError extends Error {}
interface ExpressionParser {
  readonly tokens: readonly string[]
  at: number
}

const normalizeToken = (token: string): string =>
  ({ '×': '*', '÷': '/', '**': '^' })[token] ?? token.replace(/[,_]/g, '')

const reduceFraction = (over: bigint, under: bigint): Fraction => {
  if (under === 0n) throw new NotAnExpressionError()
  const shared = greatestCommonDivisor(over, under) * (under < 0n ? -1n : 1n)
  const value = { over: over / shared, under: under / shared }
  if (absoluteValue(value.over) > MAX_FRACTION_PART || value.under > MAX_FRACTION_PART)
    throw new NotAnExpressionError()
  return value
}
const absoluteValue = (value: bigint): bigint => (value < 0n ? -value : value)
function greatestCommonDivisor(one: bigint, other: bigint): bigint {
  let [a, b] = [absoluteValue(one), absoluteValue(other)]
  while (b > 0n) [a, b] = [b, a % b]
  return a === 0n ? 1n : a
}

function acceptToken(parser: ExpressionParser, ...wanted: string[]): string | null {
  const token = parser.tokens[parser.at]
  if (token === undefined || !wanted.includes(token)) return null
  parser.at += 1
  return token
}

function parseSum(parser: ExpressionParser): Fraction {
  let value = parseProduct(parser)
  for (let sign; (sign = acceptToken(parser, '+', '-')) !== null;) {
    const { over, under } = parseProduct(parser)
    const added = sign === '+' ? over : -over
    value = reduceFraction(value.over * under + added * value.under, value.under * under)
  }
  return value
}

function parseProduct(parser: ExpressionParser): Fraction {
  let value = parseSigned(parser)
  for (let sign; (sign = acceptToken(parser, '*', '/')) !== null;) {
    const { over, under } = parseSigned(parser)
    value =
      sign === '*'
        ? reduceFraction(value.over * over, value.under * under)
        : reduceFraction(value.over * under, value.under * over)
  }
  return value
}

function parseSigned(parser: ExpressionParser): Fraction {
  const sign = acceptToken(parser, '-', '+')
  const value = sign === null ? parsePower(parser) : parseSigned(parser)
  return sign === '-' ? reduceFraction(-value.over, value.under) : value
}

function parsePower(parser: ExpressionParser): Fraction {
  const base = parsePercent(parser)
  if (acceptToken(parser, '^') === null) return base
  const { over, under } = parseSigned(parser)
  if (under !== 1n || absoluteValue(over) > 1_000n) throw new NotAnExpressionError()
  // Checked before the calculation: only a large power of a large base could be slow.
  const digits = BigInt(
    Math.max(String(absoluteValue(base.over)).length, String(base.under).length),
  )
  if (digits * absoluteValue(over) > MAX_FRACTION_DIGITS) throw new NotAnExpressionError()
  const [up, down] = [base.over ** absoluteValue(over), base.under ** absoluteValue(over)]
  return over < 0n ? reduceFraction(down, up) : reduceFraction(up, down)
}

function parsePercent(parser: ExpressionParser): Fraction {
  const value = parseAtom(parser)
  return acceptToken(parser, '%') === null ? value : reduceFraction(value.over, value.under * 100n)
}

function parseAtom(parser: ExpressionParser): Fraction {
  if (acceptToken(parser, '(') !== null) {
    const value = parseSum(parser)
    if (acceptToken(parser, ')') === null) throw new NotAnExpressionError()
    return value
  }
  const token = parser.tokens[parser.at] ?? ''
  if (!/^[\d.]+$/.test(token)) throw new NotAnExpressionError()
  parser.at += 1
  const [whole = '', decimals = ''] = token.split('.')
  return reduceFraction(BigInt(whole + decimals), 10n ** BigInt(decimals.length))
}

function formatFraction({ over, under }: Fraction): string {
  const sign = over < 0n ? '-' : ''
  const scaled = (absoluteValue(over) * 10n ** RESULT_DECIMALS * 2n + under) / (under * 2n)
  const [whole, rest] = [scaled / 10n ** RESULT_DECIMALS, scaled % 10n ** RESULT_DECIMALS]
  const decimals = String(rest).padStart(Number(RESULT_DECIMALS), '0').replace(/0+$/, '')
  const exact = (absoluteValue(over) * 10n ** RESULT_DECIMALS) % under === 0n
  const number = `${scaled === 0n ? '' : sign}${whole}${decimals === '' ? '' : `.${decimals}`}`
  return exact ? number : `about ${number}`
}
