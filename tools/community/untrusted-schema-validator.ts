import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { RE2JS } from 're2js'
import { invalidInputError } from '../../core/errors.ts'
import { escapeJsonPointer, type ValidationIssue } from '../../core/validation/validation-errors.ts'
import type { SchemaValidator } from '../schema-validator.ts'
import {
  assertUntrustedSchemaAcceptable,
  type ToolJsonSchema,
  type SchemaValidationCost,
  type UntrustedSchemaRequestField,
} from './untrusted-json-schema-check.ts'

/** Validators of JSON Schemas that strangers wrote. */

/** Above this a validation would stop the event loop for long; the value is refused instead. */
const MAX_VALIDATION_STEPS = 8_000_000
const STEPS_OF_A_PATTERN = 4

/**
 * Matches in linear time. Ajv keeps one pattern for each text that its object has, so `toString` must be that
 * of the pattern: without it all patterns of a schema would be one.
 */
const matchInLinearTime = Object.assign(
  (pattern: string, _flags: string) => {
    const compiled = RE2JS.compile(pattern)
    const text = `/${pattern}/u`
    return { test: (value: string) => compiled.matcher(value).find(), toString: () => text }
  },
  { code: 'matchInLinearTime' },
)

const createAjv = (): Ajv2020 =>
  new Ajv2020({
    strict: false,
    validateFormats: false,
    logger: false,
    allErrors: false,
    addUsedSchema: false,
    ownProperties: true,
    code: { regExp: matchInLinearTime },
  })

/** Compiles a schema; throws `invalid_input` with a pointer for one that is not acceptable. */
export function compileUntrustedSchema(
  schema: ToolJsonSchema,
  place: UntrustedSchemaRequestField,
): SchemaValidator {
  const cost = assertUntrustedSchemaAcceptable(schema, place)
  const validate = compile(schema, place)
  return (value) => {
    if (validationSteps(value, cost) > MAX_VALIDATION_STEPS)
      return [{ pointer: '', detail: 'is too large for its schema to be checked' }]
    return validate(value) ? [] : toIssues(validate.errors ?? [])
  }
}

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

/** An upper bound of the work: every part of the value meets every subschema, every text every pattern. */
function validationSteps(value: unknown, { nodes, patterns }: SchemaValidationCost): number {
  let [parts, characters] = [0, 0]
  const open: unknown[] = [value]
  while (open.length > 0) {
    const one = open.pop()
    parts += 1
    if (typeof one === 'string') characters += one.length
    else if (Array.isArray(one)) for (const inner of one) open.push(inner)
    else if (typeof one === 'object' && one !== null)
      for (const [name, inner] of Object.entries(one)) {
        characters += name.length
        open.push(inner)
      }
  }
  return parts * nodes + characters * patterns * STEPS_OF_A_PATTERN
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
