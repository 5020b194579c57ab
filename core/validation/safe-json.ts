import { invalidInputError } from '../errors.ts'
import { LIMITS } from '../limits.ts'
import { findDoubledName, findStringEnd } from './doubled-names.ts'
import {
  findInexactNumbers,
  UNSAFE_INTEGER_MESSAGE,
  type InexactNumbers,
} from './inexact-numbers.ts'
import { escapeJsonPointer, type ValidationIssue } from './validation-errors.ts'

/**
 * JSON of strangers: bounded before it is parsed (decision 390), and refused where it holds what a double, a
 * prototype or Postgres cannot take.
 */

/** Postgres stores neither NUL nor lone surrogates. */
export const UNSTORABLE_TEXT = /\0|\p{Surrogate}/u
export const UNSTORABLE_TEXT_DETAIL = 'must not contain NUL or lone surrogates'

const [QUOTE, COMMA, COLON, ARRAY, OBJECT, ARRAY_END, OBJECT_END] = Buffer.from('",:[{]}')
/** What a field of an object costs, in values. */
const VALUES_PER_FIELD = 3

/**
 * Returns why a JSON text may not be parsed: deeper than `LIMITS.jsonDepth`, an object of more than `LIMITS.jsonFields`
 * fields, or more than `maxValues` values, a field counting as three; null for none. Reads the bytes once and allocates nothing: parsing costs
 * up to a hundred times as much.
 */
export function findJsonShapeFault(bytes: Uint8Array, maxValues: number): string | null {
  let depth = 0
  let values = 1
  let fields = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === QUOTE) at = findStringEnd(bytes, at)
    else if (byte === ARRAY_END || byte === OBJECT_END) depth -= 1
    else if (byte === COMMA) values += 1
    else if (byte === COLON) {
      values += VALUES_PER_FIELD - 1
      // Of the object itself: those within have a meaning of their own.
      if (depth === 1) fields += 1
    } else if (byte === ARRAY || byte === OBJECT) {
      values += 1
      depth += 1
    } else continue
    if (depth > LIMITS.jsonDepth) return `must not be nested deeper than ${LIMITS.jsonDepth} levels`
    if (fields > LIMITS.jsonFields) return `must have at most ${LIMITS.jsonFields} fields`
    if (values > maxValues)
      return `must have at most ${maxValues} values, where a field counts as ${VALUES_PER_FIELD}`
  }
  return null
}

/** Why the JSON text of a request may not be parsed: its shape, or a name twice in one object; null for none. */
export const findRequestFault = (bytes: Buffer, maxValues: number): string | null =>
  findJsonShapeFault(bytes, maxValues) ?? findDoubledName(bytes)

/** What the text of a JSON value says about the places where a value may be unsafe. */
export interface JsonTextMarks {
  readonly inexact: InexactNumbers
  /** Only an escape puts NUL or a lone surrogate into JSON of well-formed UTF-8. */
  readonly escapes: boolean
  readonly prototypes: boolean
}

export function markJsonText(text: string): JsonTextMarks {
  const escapes = text.includes('\\u')
  return {
    inexact: findInexactNumbers(text),
    escapes,
    prototypes: escapes || text.includes('proto'),
  }
}

/**
 * Throws 400 for numbers beyond a double, names that reach a prototype, and text that Postgres cannot store. The
 * depth must be bounded.
 */
export function assertSafeJson(value: unknown, marks: JsonTextMarks): void {
  const fault = findJsonFault(value, marks)
  if (fault !== null) throw invalidInputError(fault.pointer, fault.detail)
}

/** The pointer is built on the way back, so that only a fault costs one. */
function findJsonFault(value: unknown, marks: JsonTextMarks): ValidationIssue | null {
  if (typeof value === 'string')
    return marks.escapes && UNSTORABLE_TEXT.test(value) ? here(UNSTORABLE_TEXT_DETAIL) : null
  if (typeof value === 'number') return findNumberFault(value, marks)
  if (typeof value !== 'object' || value === null) return null
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) {
      const fault = findJsonFault(value[at], marks)
      if (fault !== null) return within(String(at), fault)
    }
    return null
  }
  const fields = value as Readonly<Record<string, unknown>>
  for (const name of Object.keys(fields)) {
    if (marks.escapes && UNSTORABLE_TEXT.test(name)) return here(UNSTORABLE_TEXT_DETAIL)
    const inner = fields[name]
    const fault =
      findPrototypeFault(name, inner, marks) ??
      findAmountFault(name, inner, marks) ??
      findJsonFault(inner, marks)
    if (fault !== null) return within(name, fault)
  }
  return null
}

function findNumberFault(
  value: number,
  { inexact: { integers } }: JsonTextMarks,
): ValidationIssue | null {
  if (!Number.isFinite(value)) return here('must be a finite number')
  return integers.size > 0 && integers.has(value) ? here(UNSAFE_INTEGER_MESSAGE) : null
}

/** The text of an amount decides. Other fractions are read as doubles (decisions 414 and 493). */
function findAmountFault(
  name: string,
  inner: unknown,
  { inexact: { fractions } }: JsonTextMarks,
): ValidationIssue | null {
  if (fractions.size === 0 || typeof inner !== 'number' || !name.endsWith('_usdc')) return null
  return fractions.has(inner) ? here('must be a USDC amount of at most six decimals') : null
}

function findPrototypeFault(
  name: string,
  inner: unknown,
  { prototypes }: JsonTextMarks,
): ValidationIssue | null {
  if (!prototypes) return null
  if (name === '__proto__') return here('is a name that is not allowed')
  const reaches =
    name === 'constructor' &&
    typeof inner === 'object' &&
    inner !== null &&
    Object.hasOwn(inner, 'prototype')
  return reaches ? here('must not have the field prototype') : null
}

const here = (detail: string): ValidationIssue => ({ pointer: '', detail })

const within = (name: string, { pointer, detail }: ValidationIssue): ValidationIssue => ({
  pointer: `/${escapeJsonPointer(name)}${pointer}`,
  detail,
})
