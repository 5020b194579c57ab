import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { RE2JS } from 're2js'
import { invalidInputError } from '../../core/errors.ts'
import { escapeJsonPointer, type ValidationIssue } from '../../core/validation/validation-errors.ts'
import type { SchemaValidator } from '../schema-validator.ts'
import {
  addCountedKeywords,
  TooManyComparisonSteps,
  withComparisonLimit,
} from './counted-keywords.ts'
import { MAX_PATTERN_STEPS, patternSteps } from './untrusted-pattern-cost.ts'
import {
  assertUntrustedSchemaAcceptable,
  type ToolJsonSchema,
  type SchemaValidationCost,
  type UntrustedSchemaRequestField,
} from './untrusted-json-schema-check.ts'

/** Validators of JSON Schemas that strangers wrote; they are compiled and run in worker processes only. */

/** Above this a validation would hold its process for long; the value is refused instead. */
const MAX_VALIDATION_STEPS = 8_000_000

/** The steps that are left to the patterns of the validation that runs. */
let patternStepsLeft = 0
class TooManyPatternSteps extends Error {}

/**
 * Matches in linear time, and counts it. Ajv keeps one pattern for each text that its object has, so `toString` must be that
 * of the pattern: without it all patterns of a schema would be one.
 */
const matchInLinearTime = Object.assign(
  (pattern: string, _flags: string) => {
    const compiled = RE2JS.compile(pattern)
    const instructions = compiled.programSize()
    const text = `/${pattern}/u`
    const test = (value: string) => {
      patternStepsLeft -= patternSteps(instructions, value.length)
      if (patternStepsLeft < 0) throw new TooManyPatternSteps()
      return compiled.matcher(value).find()
    }
    return { test, toString: () => text }
  },
  { code: 'matchInLinearTime' },
)

const createAjv = (): Ajv2020 =>
  addCountedKeywords(
    new Ajv2020({
      strict: false,
      validateFormats: false,
      logger: false,
      allErrors: false,
      addUsedSchema: false,
      ownProperties: true,
      code: { regExp: matchInLinearTime },
    }),
  )

/** Compiles a schema; throws `invalid_input` with a pointer for one that is not acceptable. */
export function compileUntrustedSchema(
  schema: ToolJsonSchema,
  place: UntrustedSchemaRequestField,
): SchemaValidator {
  const cost = assertUntrustedSchemaAcceptable(schema, place)
  const validate = compile(schema, place)
  return (value) => {
    if (validationSteps(value, cost) > MAX_VALIDATION_STEPS) return TOO_LARGE
    patternStepsLeft = MAX_PATTERN_STEPS
    try {
      return withComparisonLimit(() => validate(value)) ? [] : toIssues(validate.errors ?? [])
    } catch (error) {
      if (error instanceof TooManyPatternSteps || error instanceof TooManyComparisonSteps)
        return TOO_LARGE
      throw error
    }
  }
}

const TOO_LARGE: readonly ValidationIssue[] = [
  { pointer: '', detail: 'is too large for its schema to be checked' },
]

function compile(
  schema: ToolJsonSchema,
  { pointer }: UntrustedSchemaRequestField,
): ValidateFunction {
  const ajv = createAjv()
  const { $schema: _dialect, ...rest } = schema
  try {
    return ajv.compile(rest)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw invalidInputError(pointer, `is no valid JSON Schema: ${reason.slice(0, 300)}`)
  }
}

/** An upper bound of the work beside patterns and comparisons: every part of the value meets every subschema. */
function validationSteps(value: unknown, { nodes }: SchemaValidationCost): number {
  let parts = 0
  const open: unknown[] = [value]
  while (open.length > 0) {
    const one = open.pop()
    parts += 1
    if (typeof one !== 'object' || one === null) continue
    for (const inner of Object.values(one)) open.push(inner)
  }
  return parts * nodes
}

function toIssues(errors: readonly ErrorObject[]): ValidationIssue[] {
  const [first] = errors
  if (first === undefined) return [{ pointer: '', detail: 'does not match its schema' }]
  const { keyword, instancePath, message = 'does not match its schema' } = first
  const params = first.params as Record<string, unknown>
  const within = (name: unknown) => `${instancePath}/${escapeJsonPointer(String(name))}`
  if (keyword === 'required')
    return [{ pointer: within(params['missingProperty']), detail: 'is required' }]
  if (keyword === 'additionalProperties')
    return [{ pointer: within(params['additionalProperty']), detail: 'is not a field here' }]
  return [{ pointer: instancePath, detail: message.slice(0, 200) }]
}
