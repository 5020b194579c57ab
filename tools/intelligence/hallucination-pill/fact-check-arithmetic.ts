import { calculateExpression } from '../../../providers/text/calculator.ts'
import {
  exactFinding,
  approximateFinding,
  type FactClaimCheckFunction,
  type FactCheckFinding,
} from './fact-claim-normalizer-and-finding-types.ts'
import {
  expressionDifference,
  matchesQuantityExactly,
  numberTextToExactExpression,
  AMBIGUOUS_COMMA,
  parseClaimedQuantity,
  type ClaimedQuantity,
} from './claimed-quantity.ts'

/** Checks arithmetic claims. */

const SOURCE = 'arithmetic'
const N = String.raw`-?[\d,_.]+(?: (?:thousand|million|billion|trillion))?`
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/\bto the power of\b|\braised to\b/gi, '^'],
  [/\bmultiplied by\b|\btimes\b|×/gi, '*'],
  [/\bdivided by\b|÷/gi, '/'],
  [/\bplus\b/gi, '+'],
  [/\bminus\b/gi, '-'],
  [/\bsquared\b/gi, '^2'],
  [/\bcubed\b/gi, '^3'],
  [/(\d)% of /gi, '$1% * '],
  [/(\d) percent of /gi, '$1% * '],
]
const EXPRESSION = /^[-+*/^%().\d\s,_]+$/
const EQUALS = / (?:is equal to|equals|equal|is|makes|gives|=|==) | ?= ?/i
const MAX_PRIME_CHECKED = 10 ** 12

/** Checks sums, powers and percentages with exact fractions; nothing is evaluated as code. */
export const factCheckArithmetic: FactClaimCheckFunction = (claim) =>
  special(claim) ?? equation(claim) ?? inequality(claim)

function spell(text: string): string {
  let spelled = text
  for (const [word, sign] of WORDS) spelled = spelled.replace(word, sign)
  return spelled.replace(/\s+/g, ' ').trim()
}

/** Returns a computable expression with at least two numbers or a sign; else null. */
function expression(text: string): string | null {
  const spelled = spell(text)
  if (AMBIGUOUS_COMMA.test(spelled)) return null
  if (!EXPRESSION.test(spelled) || !/\d/.test(spelled)) return null
  return calculateExpression(`0+(${spelled})`) === null ? null : `(${spelled})`
}

function equation(claim: string): FactCheckFinding | null {
  const at = EQUALS.exec(claim)
  if (at === null) return null
  const left = expression(claim.slice(0, at.index))
  if (left === null) return null
  const right = claim.slice(at.index + at[0].length)
  const claimed = parseClaimedQuantity(spell(right))
  if (claimed !== null && claimed.unit === '') return compared(claimed, left)
  const other = expression(right)
  return other === null ? null : compared({ ...PLAIN, value: other }, left)
}

const PLAIN: ClaimedQuantity = { mode: 'is', value: '', upper: null, decimals: 0, unit: '' }

function compared(claimed: ClaimedQuantity, actual: string): FactCheckFinding | null {
  const fit = matchesQuantityExactly(claimed, actual)
  const value = calculateExpression(`0+${actual}`)
  if (fit === null || value === null) return null
  return (fit.exact ? exactFinding : approximateFinding)(
    fit.holds,
    value,
    SOURCE,
    'Computed with exact fractions.',
  )
}

const SIGNS: Readonly<Record<string, (difference: number) => boolean>> = {
  '>': (by) => by > 0,
  '<': (by) => by < 0,
  '>=': (by) => by >= 0,
  '<=': (by) => by <= 0,
  '!=': (by) => by !== 0,
}
const WORDED: readonly (readonly [RegExp, string])[] = [
  [/ is (?:greater|larger|bigger|more) than /i, ' > '],
  [/ is (?:less|smaller) than /i, ' < '],
]

function inequality(claim: string): FactCheckFinding | null {
  let text = claim
  for (const [words, sign] of WORDED) text = text.replace(words, sign)
  const [, one = '', sign = '', other = ''] = /^(.+?) ?(>=|<=|!=|>|<) ?(.+)$/.exec(text) ?? []
  const [left, right] = [expression(one), expression(other)]
  if (left === null || right === null) return null
  const by = expressionDifference(left, right)
  if (by === null) return null
  const holds = SIGNS[sign]?.(by.exact ? 0 : by.value) ?? false
  return exactFinding(
    holds,
    `${calculateExpression(`0+${left}`)} and ${calculateExpression(`0+${right}`)}`,
    SOURCE,
    'Compared exactly.',
  )
}

type Special = readonly [RegExp, (...parts: string[]) => FactCheckFinding | null]
const value = (text = ''): string => numberTextToExactExpression(text) ?? '(0)'
const pattern = (text: string) => new RegExp(`^${text.replaceAll('#', `(${N})`)}$`, 'i')

/** Claims with a wording of their own. */
const SPECIALS: readonly Special[] = [
  [
    pattern('the sum of # and # (?:is|equals) (.+)'),
    (a, b, claimed) => against(claimed, `${value(a)}+${value(b)}`),
  ],
  [
    pattern('the product of # and # (?:is|equals) (.+)'),
    (a, b, claimed) => against(claimed, `${value(a)}*${value(b)}`),
  ],
  [
    pattern('the difference (?:of|between) # and # (?:is|equals) (.+)'),
    (a, b, claimed) => against(claimed, `${value(a)}-${value(b)}`),
  ],
  [
    pattern('the average of # and # (?:is|equals) (.+)'),
    (a, b, claimed) => against(claimed, `(${value(a)}+${value(b)})/2`),
  ],
  [
    pattern('(?:the )?square root of # (?:is|equals) #'),
    (a, root) => rooted(value(root), value(a)),
  ],
  [
    pattern('#(?:%| percent) of # (?:is|equals) (.+)'),
    (p, of, claimed) => against(claimed, `${value(p)}/100*${value(of)}`),
  ],
  [
    pattern('# is #(?:%| percent) of #'),
    (part, p, of) => against(part ?? '', `${value(p)}/100*${value(of)}`),
  ],
  [
    pattern(
      '(?:an? |the )?(?:increase|change|rise|growth) from # to # is (?:a |an )?#(?:%| percent)(?: increase)?',
    ),
    (from, to, p) => against(p ?? '', `(${value(to)}-${value(from)})/${value(from)}*100`),
  ],
  [pattern('#(?:!| factorial) ?(?:is|equals|=) (.+)'), (n, claimed) => factorial(n ?? '', claimed)],
  [pattern('# is (?:a )?prime(?: number)?'), (n) => prime(n ?? '')],
  [pattern('# is an? (even|odd) number'), (n, kind) => even(n ?? '', kind ?? '')],
  [pattern('# is (even|odd)'), (n, kind) => even(n ?? '', kind ?? '')],
  [pattern('# is divisible by #'), (n, by) => divisible(n ?? '', by ?? '')],
]

function special(claim: string): FactCheckFinding | null {
  if (AMBIGUOUS_COMMA.test(claim)) return null
  for (const [form, check] of SPECIALS) {
    const matched = form.exec(claim)
    if (matched === null) continue
    const found = check(...matched.slice(1))
    if (found !== null) return found
  }
  return null
}

function against(claimed = '', actual: string): FactCheckFinding | null {
  const quantity = parseClaimedQuantity(claimed)
  return quantity === null || quantity.unit.replace('%', '') !== ''
    ? null
    : compared(quantity, actual)
}

function rooted(root: string, square: string): FactCheckFinding | null {
  const by = expressionDifference(`${root}^2`, square)
  const observed = Math.sqrt(Number(calculateExpression(`0+${square}`)))
  if (by === null || Number.isNaN(observed)) return null
  if (by.exact) return exactFinding(true, observed, SOURCE, 'Its square is exactly that.')
  const claimed = Number(calculateExpression(`0+${root}`))
  const decimals = String(claimed).split('.')[1]?.length ?? 0
  const near = decimals > 0 && Math.abs(claimed - observed) <= 0.5 * 10 ** -decimals + 1e-12
  return (near ? approximateFinding : exactFinding)(
    near,
    observed,
    SOURCE,
    'Compared with the square root.',
  )
}

const integer = (text: string): number | null => {
  const number = Number(text.replace(/[,_]/g, ''))
  return Number.isSafeInteger(number) ? number : null
}

function factorial(text: string, claimed = ''): FactCheckFinding | null {
  const n = integer(text)
  if (n === null || n < 0 || n > 40) return null
  let product = 1n
  for (let at = 2n; at <= BigInt(n); at += 1n) product *= at
  return against(claimed, String(product))
}

function prime(text: string): FactCheckFinding | null {
  const n = integer(text)
  if (n === null || n < 0 || n > MAX_PRIME_CHECKED) return null
  const factor = leastFactor(n)
  const context = factor === null ? 'It has no divisor.' : `It is divisible by ${factor}.`
  return exactFinding(n > 1 && factor === null, n > 1 && factor === null, SOURCE, context)
}

function leastFactor(n: number): number | null {
  for (let at = 2; at * at <= n; at += 1) if (n % at === 0) return at
  return null
}

function even(text: string, kind: string): FactCheckFinding | null {
  const n = integer(text)
  if (n === null) return null
  const is = n % 2 === 0 ? 'even' : 'odd'
  return exactFinding(is === kind.toLowerCase(), is, SOURCE, 'By its last digit.')
}

function divisible(text: string, by: string): FactCheckFinding | null {
  const [n, divisor] = [integer(text), integer(by)]
  if (n === null || divisor === null || divisor === 0) return null
  return exactFinding(
    n % divisor === 0,
    n % divisor === 0,
    SOURCE,
    `The remainder is ${n % divisor}.`,
  )
}
