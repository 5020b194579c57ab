import { calculateExpression } from '../../../providers/text/calculator.ts'

/** How a claim says a number: as it is, about, above, below, or between two. */
export interface ClaimedQuantity {
  readonly mode: 'is' | 'about' | 'above' | 'at_least' | 'below' | 'at_most' | 'between'
  /** An exact expression of the number. */
  readonly value: string
  readonly upper: string | null
  /** Digits behind the point, as the claim spells it. */
  readonly decimals: number
  /** What follows the number. */
  readonly unit: string
}

const SCALES: Readonly<Record<string, number>> = {
  thousand: 3,
  k: 3,
  million: 6,
  mn: 6,
  m: 6,
  billion: 9,
  bn: 9,
  b: 9,
  trillion: 12,
}
/** A number as people write it; matched by name in larger patterns. */
export const NUMBER_PATTERN = String.raw`[-+]?\$? ?\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+|(?: ?\* ?10)?\^\d+)?(?: ?(?:thousand|million|billion|trillion|mn|bn|k|m|b)\b)?`
const ONE = /^([-+]?)\$? ?(\d[\d,_]*(?:\.\d+)?)(?:e([+-]?\d+)|( ?\* ?10)?\^(\d+))?(?: ?([a-z]+))?$/i

/** A comma that parts no thousands: perhaps decimals, so nobody can tell what it says. */
export const AMBIGUOUS_COMMA = /\d,(?!\d{3}(?!\d))/

/** An expression that is exactly the number; null for what is none. */
export function toExactExpression(text: string): string | null {
  const [matched, sign = '', digits = '', exponent, timesTen, power, scale] =
    ONE.exec(text.trim()) ?? []
  if (matched === undefined) return null
  const plain = `${sign === '-' ? '-' : ''}${digits.replace(/[,_]/g, '')}`
  if (AMBIGUOUS_COMMA.test(digits)) return null
  const places = scale === undefined ? 0 : SCALES[scale.toLowerCase()]
  if (places === undefined) return null
  let value = plain
  if (exponent !== undefined) value = `${plain}*10^(${Number(exponent)})`
  else if (power !== undefined)
    value = timesTen === undefined ? `${plain}^${power}` : `${plain}*10^${power}`
  const scaled = places === 0 ? value : `(${value})*10^${places}`
  return `(${scaled})`
}

const MODES: readonly (readonly [RegExp, ClaimedQuantity['mode']])[] = [
  [
    /^(?:about|approximately|approx\.?|around|roughly|nearly|almost|circa|some|~|close to) ?/i,
    'about',
  ],
  [/^(?:at least|no less than|>=|≥) ?/i, 'at_least'],
  [/^(?:at most|up to|no more than|<=|≤) ?/i, 'at_most'],
  [/^(?:over|above|more than|greater than|higher than|exceeding|>) ?/i, 'above'],
  [/^(?:under|below|less than|lower than|fewer than|<) ?/i, 'below'],
  [/^(?:exactly|precisely|equal to|=|now|currently|set at|at) ?/i, 'is'],
]
const HEAD = new RegExp(`^(${NUMBER_PATTERN})(.*)$`, 'i')
const RANGE = new RegExp(`^between (${NUMBER_PATTERN}) and (${NUMBER_PATTERN})(.*)$`, 'i')

/** Reads what a claim says behind its verb; null for what is no quantity. */
export function parseClaimedQuantity(text: string): ClaimedQuantity | null {
  let rest = text.trim()
  const [, low, high, tail = ''] = RANGE.exec(rest) ?? []
  if (low !== undefined && high !== undefined) {
    const [value, upper] = [toExactExpression(low), toExactExpression(high)]
    if (value === null || upper === null) return null
    return { mode: 'between', value, upper, decimals: 0, unit: tail.trim() }
  }
  let mode: ClaimedQuantity['mode'] = 'is'
  for (const [pattern, named] of MODES) {
    if (!pattern.test(rest)) continue
    mode = named
    rest = rest.replace(pattern, '').replace(/^at /i, '')
    break
  }
  const [, number = '', unit = ''] = HEAD.exec(rest) ?? []
  const value = toExactExpression(number)
  if (value === null) return null
  const decimals = /\.(\d+)/.exec(number)?.[1]?.length ?? 0
  return { mode, value, upper: null, decimals, unit: unit.trim() }
}

/** The difference of two expressions, exact or nearly; null when one cannot be computed. */
export function expressionDifference(
  one: string,
  other: string,
): { exact: boolean; value: number } | null {
  const text = calculateExpression(`(${one})-(${other})`)
  if (text === null) return null
  return { exact: text === '0', value: Number(text.replace('about ', '')) }
}

/** An expression as a plain number; null when it cannot be computed. */
export function evaluateExpression(expression: string): number | null {
  const text = calculateExpression(`0+${expression}`)
  return text === null ? null : Number(text.replace('about ', ''))
}

export interface QuantityTolerance {
  /** Parts of the observed value. */
  readonly is: number
  readonly about: number
}

/** Whether an observed number is as the claim says. */
export function matchesQuantity(
  said: ClaimedQuantity,
  observed: number,
  { is, about }: QuantityTolerance,
): boolean | null {
  const value = evaluateExpression(said.value)
  const upper = said.upper === null ? null : evaluateExpression(said.upper)
  if (value === null) return null
  const within = (part: number) => Math.abs(observed - value) <= Math.abs(observed) * part
  switch (said.mode) {
    case 'is':
      return within(is)
    case 'about':
      return within(about)
    case 'above':
      return observed > value
    case 'at_least':
      return observed >= value
    case 'below':
      return observed < value
    case 'at_most':
      return observed <= value
    case 'between':
      return upper !== null && observed >= value && observed <= upper
  }
}

/** Whether an exactly known number is as the claim says; rounding counts as right, but not as exact. */
export function matchesQuantityExactly(
  said: ClaimedQuantity,
  actual: string,
): { holds: boolean; exact: boolean } | null {
  const known = expressionDifference(said.value, actual)
  if (known === null) return null
  if (said.mode === 'is') {
    if (known.exact) return { holds: true, exact: true }
    const rounded = said.decimals > 0 && isRounded(said, actual)
    return { holds: rounded, exact: !rounded }
  }
  const observed = evaluateExpression(actual)
  if (observed === null) return null
  const holds = matchesQuantity(said, observed, { is: 0, about: 0.1 })
  return holds === null ? null : { holds, exact: said.mode !== 'about' }
}

/** Whether it differs by less than half of its last digit. */
function isRounded({ value, decimals }: ClaimedQuantity, actual: string): boolean {
  const steps = calculateExpression(`((${value})-(${actual}))*10^${decimals}`)
  return steps !== null && Math.abs(Number(steps.replace('about ', ''))) <= 0.5
}

/** A number as an answer shows it. */
export const toDisplayNumber = (value: number): number => Number(value.toPrecision(12))
