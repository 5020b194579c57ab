import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import type { TLocalizedValidationError } from 'typebox/error'
import { Settings } from 'typebox/system'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import {
  escapeJsonPointer,
  describeSchemaViolations,
  type SchemaViolation,
  type ValidationIssue,
} from '../core/validation/validation-errors.ts'
import { UNSTORABLE_TEXT } from '../core/validation/safe-json.ts'
import type { DescribableJsonSchema } from '../core/validation/describe-json-schema.ts'

/** Returns the issues of a value; empty when it is valid. Never coerces or changes the value. */
export type SchemaValidator = (value: unknown) => readonly ValidationIssue[]

Settings.Set({ maxErrors: 32 })

/** By their schema: catalogues of one process share what they have compiled. */
const compiledValidators = new WeakMap<TSchema, SchemaValidator>()

/** Compiles a schema; the validator names each missing and each unknown field itself. */
export function compileSchemaValidator(schema: TSchema): SchemaValidator {
  const known = compiledValidators.get(schema)
  if (known !== undefined) return known
  const compiled = Compile(schema)
  const validate: SchemaValidator = (value) =>
    compiled.Check(value) ? [] : toValidationIssues(schema, value, compiled.Errors(value))
  compiledValidators.set(schema, validate)
  return validate
}

/** Compiles a validator of caller input, which also refuses text and depths that cannot be stored. */
export function compileInputValidator(schema: TSchema): SchemaValidator {
  return withUnstorableValuesRefused(compileSchemaValidator(schema))
}

/** Refuses text and depths that cannot be stored before the validator sees the value. */
export const withUnstorableValuesRefused =
  (fits: SchemaValidator): SchemaValidator =>
  (value) =>
    isStorable(value, 0) ? fits(value) : [...unstorableParts(value, '', 0)]

/** Throws `invalid_input` with every issue. */
export function throwInvalidInputOnIssues(misfits: readonly ValidationIssue[]): void {
  const [first] = misfits
  if (first === undefined) return
  const detail = first.pointer === '' ? first.detail : `${first.pointer} ${first.detail}`
  throw new ServiceError('invalid_input', { detail, errors: misfits })
}

function toValidationIssues(
  schema: TSchema,
  value: unknown,
  errors: readonly TLocalizedValidationError[],
): ValidationIssue[] {
  const relevant = errors.filter(({ keyword }) => keyword !== 'boolean')
  const misfits = describeSchemaViolations(
    relevant.map((error) => toSchemaViolation(schema, value, error)),
  )
  return misfits.length > 0 ? misfits : [UNKNOWN_FIELDS_ISSUE]
}

/** Replaces single errors of unknown fields, which would push other issues out of the list. */
const UNKNOWN_FIELDS_ISSUE: ValidationIssue = {
  pointer: '',
  detail: 'must have no unknown fields',
}

function toSchemaViolation(
  schema: TSchema,
  value: unknown,
  error: TLocalizedValidationError,
): SchemaViolation {
  const { instancePath, keyword, schemaPath, message } = error
  return {
    keyword,
    pointer: instancePath,
    schemaPath: schemaPath,
    names: fieldNamesOf(error),
    schema: (valueAtPointer(schema, schemaPath.replace(/^#/, '')) ?? {}) as DescribableJsonSchema,
    value: valueAtPointer(value, instancePath),
    message,
  }
}

function fieldNamesOf({ keyword, params }: TLocalizedValidationError): readonly string[] {
  const { requiredProperties, additionalProperties } = params as Record<string, string[]>
  if (keyword === 'required') return requiredProperties ?? []
  return keyword === 'additionalProperties' ? (additionalProperties ?? []) : []
}

/** Returns the part of a value at a JSON pointer. */
function valueAtPointer(value: unknown, pointer: string): unknown {
  let part = value
  for (const step of pointer.split('/').slice(1)) {
    const name = step.replace(/~1/g, '/').replace(/~0/g, '~')
    if (typeof part !== 'object' || part === null || !Object.hasOwn(part, name)) return undefined
    part = (part as Record<string, unknown>)[name]
  }
  return part
}

/** Whether `unstorableParts` finds nothing. */
function isStorable(value: unknown, depth: number): boolean {
  if (depth > LIMITS.jsonDepth) return false
  if (typeof value === 'string') return !UNSTORABLE_TEXT.test(value)
  if (typeof value !== 'object' || value === null) return true
  for (const [name, inner] of Object.entries(value))
    if (UNSTORABLE_TEXT.test(name) || !isStorable(inner, depth + 1)) return false
  return true
}

/** Finds NUL and lone surrogates: Postgres stores neither, and one such row would fail a whole commit. */
function* unstorableParts(
  value: unknown,
  pointer: string,
  depth: number,
): Generator<ValidationIssue> {
  if (depth > LIMITS.jsonDepth)
    yield { pointer, detail: `is nested deeper than ${LIMITS.jsonDepth} levels` }
  else if (typeof value === 'string') {
    if (UNSTORABLE_TEXT.test(value))
      yield { pointer, detail: 'must be well-formed text without NUL' }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, inner] of Object.entries(value)) {
      if (UNSTORABLE_TEXT.test(name)) yield { pointer, detail: 'must have well-formed field names' }
      else yield* unstorableParts(inner, `${pointer}/${escapeJsonPointer(name)}`, depth + 1)
    }
  }
}
