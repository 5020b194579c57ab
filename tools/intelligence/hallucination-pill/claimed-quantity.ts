import { calculateExpression } from '../../../providers/text/calculator.ts'

/** A quantity in a claim: exact, about, above, below, or a range. */
export interface ClaimedQuantity {
  readonly mode: 'is' | 'about' | 'above' | 'at_least' | 'below' | 'at_most' | 'between'
  /** The number as an exact expression. */
  readonly value: string
  readonly upper: string | null
  /** Decimal digits in the claim. */
  readonly decimals: number
  /** The text after the number. */
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
/** Matches a number as people write it; part of larger patterns. */
export const NUMBER_PATTERN = String.raw`[-+]?\$? ?\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+|(?: ?\* ?10)?\^\d+)?(?: ?(?:thousand|million|billion|trillion|mn|bn|k|m|b)\b)?`
const ONE = /^([-+]?)\$? ?(\d[\d,_]*(?:\.\d+)?)(?:e([+-]?\d+)|( ?\* ?10)?\^(\d+))?(?: ?([a-z]+))?$/i

/** A comma that separates no thousands may be a decimal comma, so the number is ambiguous. */
export const AMBIGUOUS_COMMA = /\d,(?!\d{3}(?!\d))/

/** Converts a number to an exact expression; returns null for other text. */
export function numberTextToExactExpression(text: string): string | null {
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

/** Parses the quantity after a claim's verb; returns null for other text. */
export function parseClaimedQuantity(text: string): ClaimedQuantity | null {
  let rest = text.trim()
  const [, low, high, tail = ''] = RANGE.exec(rest) ?? []
  if (low !== undefined && high !== undefined) {
    const [value, upper] = [numberTextToExactExpression(low), numberTextToExactExpression(high)]
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
  const value = numberTextToExactExpression(number)
  if (value === null) return null
  const decimals = /\.(\d+)/.exec(number)?.[1]?.length ?? 0
  return { mode, value, upper: null, decimals, unit: unit.trim() }
}

/** Returns the difference of two expressions, exact or approximate; null when one cannot be computed. */
export function expressionDifference(
  one: string,
  other: string,
): { exact: boolean; value: number } | null {
  const text = calculateExpression(`(${one})-(${other})`)
  if (text === null) return null
  return { exact: text === '0', value: Number(text.replace('about ', '')) }
}

/** Computes an expression as a plain number; returns null when it cannot be computed. */
export function evaluateExpression(expression: string): number | null {
  const text = calculateExpression(`0+${expression}`)
  return text === null ? null : Number(text.replace('about ', ''))
}

export interface QuantityTolerance {
  /** Relative to the observed value. */
  readonly is: number
  readonly about: number
}

/** Returns whether an observed number matches the claim. */
export function matchesQuantity(
  claimed: ClaimedQuantity,
  observed: number,
  { is, about }: QuantityTolerance,
): boolean | null {
  const value = evaluateExpression(claimed.value)
  const upper = claimed.upper === null ? null : evaluateExpression(claimed.upper)
  if (value === null) return null
  const within = (part: number) => Math.abs(observed - value) <= Math.abs(observed) * part
  switch (claimed.mode) {
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

/** Returns whether an exactly known number matches the claim; a rounded number matches, but not exactly. */
export function matchesQuantityExactly(
  claimed: ClaimedQuantity,
  actual: string,
): { holds: boolean; exact: boolean } | null {
  const known = expressionDifference(claimed.value, actual)
  if (known === null) return null
  if (claimed.mode === 'is') {
    if (known.exact) return { holds: true, exact: true }
    const rounded = claimed.decimals > 0 && isRounded(claimed, actual)
    return { holds: rounded, exact: !rounded }
  }
  const observed = evaluateExpression(actual)
  if (observed === null) return null
  const holds = matchesQuantity(claimed, observed, { is: 0, about: 0.1 })
  return holds === null ? null : { holds, exact: claimed.mode !== 'about' }
}

/** Returns whether the difference is below half of the last digit. */
function isRounded({ value, decimals }: ClaimedQuantity, actual: string): boolean {
  const steps = calculateExpression(`((${value})-(${actual}))*10^${decimals}`)
  return steps !== null && Math.abs(Number(steps.replace('about ', ''))) <= 0.5
}

/** Rounds a number for display. */
export const toDisplayNumber = (value: number): number => Number(value.toPrecision(12))
