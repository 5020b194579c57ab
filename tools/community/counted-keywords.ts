import { str, type Ajv2020 } from 'ajv/dist/2020.js'
import { isDecimalMultiple } from './decimal-multiple.ts'

/**
 * Keywords whose work grows with the value, counted as it happens (decision 483). Values are compared by their text,
 * which is made once for each object of a validation: equality of pairs would be quadratic.
 */

/** Of one validation: some 50 to 100 ms. */
const MAX_COMPARISON_STEPS = 2_000_000
const CHARS_PER_STEP = 8
/** A division of decimals with an exponent. */
const DECIMAL_STEPS = 32

export class TooManyComparisonSteps extends Error {}

let stepsLeft = Infinity
let texts = new WeakMap<object, string>()

/** Runs a validation; throws `TooManyComparisonSteps` for one that takes too many. */
export function withComparisonLimit<T>(validate: () => T): T {
  stepsLeft = MAX_COMPARISON_STEPS
  texts = new WeakMap()
  try {
    return validate()
  } finally {
    stepsLeft = Infinity
  }
}

function spend(steps: number): void {
  stepsLeft -= steps
  if (stepsLeft < 0) throw new TooManyComparisonSteps()
}

const spendChars = (chars: number): void => spend(1 + chars / CHARS_PER_STEP)

/** A text that equal JSON values share, whatever the order of their fields. */
function textOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const known = texts.get(value)
  if (known !== undefined) return known
  const text = Array.isArray(value)
    ? `[${value.map(textOf).join(',')}]`
    : `{${Object.entries(value)
        .map(([name, inner]) => `${JSON.stringify(name)}:${textOf(inner)}`)
        .sort()
        .join(',')}}`
  texts.set(value, text)
  spendChars(text.length)
  return text
}

function countedTextOf(value: unknown): string {
  const text = textOf(value)
  spendChars(text.length)
  return text
}

/** Whether a text has at least, or at most, so many characters, which are at most its UTF-16 units. */
function hasLength(text: string, least: number, most: number): boolean {
  if (text.length < least) return false
  if (text.length >= 2 * least && text.length <= most) return true
  spendChars(text.length)
  let length = 0
  for (const _ of text) length += 1
  return length >= least && length <= most
}

function isMultiple(value: number, of: number): boolean {
  spend(Number.isInteger(value) && Number.isInteger(of) ? 1 : DECIMAL_STEPS)
  return isDecimalMultiple(value, of)
}

function isOneOf(values: readonly unknown[]): (value: unknown) => boolean {
  const known = new Set(values.map(textOf))
  return (value) => known.has(countedTextOf(value))
}

/** Replaces the keywords of Ajv whose work is not counted. */
export function addCountedKeywords(ajv: Ajv2020): Ajv2020 {
  for (const name of ['multipleOf', 'uniqueItems', 'enum', 'const', 'minLength', 'maxLength'])
    ajv.removeKeyword(name)
  return ajv
    .addKeyword({
      keyword: 'multipleOf',
      type: 'number',
      schemaType: 'number',
      compile: (of: number) => (value: number) => isMultiple(value, of),
      error: { message: ({ schema }) => str`must be multiple of ${schema as number}` },
    })
    .addKeyword({
      keyword: 'uniqueItems',
      type: 'array',
      schemaType: 'boolean',
      compile: (wanted: boolean) => (items: unknown[]) =>
        !wanted || new Set(items.map(countedTextOf)).size === items.length,
      error: { message: 'must NOT have duplicate items' },
    })
    .addKeyword({
      keyword: 'enum',
      schemaType: 'array',
      compile: isOneOf,
      error: { message: 'must be equal to one of the allowed values' },
    })
    .addKeyword({
      keyword: 'const',
      compile: (value: unknown) => isOneOf([value]),
      error: { message: 'must be equal to constant' },
    })
    .addKeyword({
      keyword: 'maxLength',
      type: 'string',
      schemaType: 'number',
      compile: (most: number) => (text: string) => hasLength(text, 0, most),
      error: {
        message: ({ schema }) => str`must NOT have more than ${schema as number} characters`,
      },
    })
    .addKeyword({
      keyword: 'minLength',
      type: 'string',
      schemaType: 'number',
      compile: (least: number) => (text: string) => hasLength(text, least, Infinity),
      error: {
        message: ({ schema }) => str`must NOT have fewer than ${schema as number} characters`,
      },
    })
}
