/** An exact fraction; the denominator is positive. */
interface Fraction {
  readonly over: bigint
  readonly under: bigint
}

const LONGEST = 200
/** Of numerator and denominator: no expression grows without end. */
const MOST_DIGITS = 400n
const LARGEST = 10n ** MOST_DIGITS
const DECIMALS = 12n

/**
 * The value of an expression of numbers, + - * / ^ % and brackets, exact where its decimals end after
 * twelve; null when the text is none, or divides by zero, or is too large. Nothing is ever evaluated.
 */
export function calculate(text: string): string | null {
  const tokens = text.slice(0, LONGEST + 1).match(/\d[\d,_]*(?:\.\d+)?|\.\d+|\*\*|[-+*/^%()×÷]|\S/g)
  if (tokens === null || text.length > LONGEST || !tokens.some((one) => /[-+*/^%×÷]/.test(one)))
    return null
  const parser = { tokens: tokens.map(plain), at: 0 }
  try {
    const value = sum(parser)
    return parser.at === parser.tokens.length ? written(value) : null
  } catch (error) {
    if (error instanceof NoExpression) return null
    throw error
  }
}

class NoExpression extends Error {}
interface Parser {
  readonly tokens: readonly string[]
  at: number
}

const plain = (token: string): string =>
  ({ '×': '*', '÷': '/', '**': '^' })[token] ?? token.replace(/[,_]/g, '')

const make = (over: bigint, under: bigint): Fraction => {
  if (under === 0n) throw new NoExpression()
  const shared = divisor(over, under) * (under < 0n ? -1n : 1n)
  const value = { over: over / shared, under: under / shared }
  if (size(value.over) > LARGEST || value.under > LARGEST) throw new NoExpression()
  return value
}
const size = (value: bigint): bigint => (value < 0n ? -value : value)
function divisor(one: bigint, other: bigint): bigint {
  let [a, b] = [size(one), size(other)]
  while (b > 0n) [a, b] = [b, a % b]
  return a === 0n ? 1n : a
}

function take(parser: Parser, ...wanted: string[]): string | null {
  const token = parser.tokens[parser.at]
  if (token === undefined || !wanted.includes(token)) return null
  parser.at += 1
  return token
}

function sum(parser: Parser): Fraction {
  let value = product(parser)
  for (let sign; (sign = take(parser, '+', '-')) !== null;) {
    const { over, under } = product(parser)
    const added = sign === '+' ? over : -over
    value = make(value.over * under + added * value.under, value.under * under)
  }
  return value
}

function product(parser: Parser): Fraction {
  let value = signed(parser)
  for (let sign; (sign = take(parser, '*', '/')) !== null;) {
    const { over, under } = signed(parser)
    value =
      sign === '*'
        ? make(value.over * over, value.under * under)
        : make(value.over * under, value.under * over)
  }
  return value
}

function signed(parser: Parser): Fraction {
  const sign = take(parser, '-', '+')
  const value = sign === null ? power(parser) : signed(parser)
  return sign === '-' ? make(-value.over, value.under) : value
}

function power(parser: Parser): Fraction {
  const base = percent(parser)
  if (take(parser, '^') === null) return base
  const { over, under } = signed(parser)
  if (under !== 1n || size(over) > 1_000n) throw new NoExpression()
  // Checked before it is computed: a large base to a large power is the one way to be slow here.
  const digits = BigInt(Math.max(String(size(base.over)).length, String(base.under).length))
  if (digits * size(over) > MOST_DIGITS) throw new NoExpression()
  const [up, down] = [base.over ** size(over), base.under ** size(over)]
  return over < 0n ? make(down, up) : make(up, down)
}

function percent(parser: Parser): Fraction {
  const value = atom(parser)
  return take(parser, '%') === null ? value : make(value.over, value.under * 100n)
}

function atom(parser: Parser): Fraction {
  if (take(parser, '(') !== null) {
    const value = sum(parser)
    if (take(parser, ')') === null) throw new NoExpression()
    return value
  }
  const token = parser.tokens[parser.at] ?? ''
  if (!/^[\d.]+$/.test(token)) throw new NoExpression()
  parser.at += 1
  const [whole = '', decimals = ''] = token.split('.')
  return make(BigInt(whole + decimals), 10n ** BigInt(decimals.length))
}

function written({ over, under }: Fraction): string {
  const sign = over < 0n ? '-' : ''
  const scaled = (size(over) * 10n ** DECIMALS * 2n + under) / (under * 2n)
  const [whole, rest] = [scaled / 10n ** DECIMALS, scaled % 10n ** DECIMALS]
  const decimals = String(rest).padStart(Number(DECIMALS), '0').replace(/0+$/, '')
  const exact = (size(over) * 10n ** DECIMALS) % under === 0n
  const number = `${scaled === 0n ? '' : sign}${whole}${decimals === '' ? '' : `.${decimals}`}`
  return exact ? number : `about ${number}`
}
