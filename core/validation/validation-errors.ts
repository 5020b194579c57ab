import { findClosestWord } from './did-you-mean.ts'
import { patternErrorMessage } from './request-schema-regex-patterns.ts'
import {
  CHARACTER_SINGULAR_AND_PLURAL,
  describeCountRange,
  describeValueType,
  describeAcceptedSchemaValues,
  acceptsValueType,
  type DescribableJsonSchema,
} from './describe-json-schema.ts'

/** One reason why a value is invalid, with its JSON pointer (RFC 6901). */
export interface ValidationIssue {
  readonly pointer: string
  readonly detail: string
  /** The field that was probably meant, for a misspelled one. */
  readonly did_you_mean?: string
}

/** A violation reported by the validator, with the schema and value it concerns. */
export interface SchemaViolation {
  readonly keyword: string
  /** Pointer of the value, and its place in the schema. */
  readonly pointer: string
  readonly schemaPath: string
  /** Missing or unknown fields. */
  readonly names: readonly string[]
  readonly schema: DescribableJsonSchema
  readonly value: unknown
  /** Query, path and headers are always text: their type says nothing. */
  readonly isTextInput?: boolean
  /** The validator's own message, for keywords without a message of ours. */
  readonly message: string
}

const ENTRIES = ['entry', 'entries'] as const
const FIELDS = ['field', 'fields'] as const

/** Escapes a name for a JSON pointer. */
export const escapeJsonPointer = (name: string): string =>
  name.includes('~') || name.includes('/') ? name.replace(/~/g, '~0').replace(/\//g, '~1') : name

/** Describes violations in plain words: what is wrong and what is accepted. */
export function describeSchemaViolations(
  violations: readonly SchemaViolation[],
): ValidationIssue[] {
  return collapseAlternatives(violations).flatMap(issuesOfViolation)
}

const isChoice = ({ keyword }: SchemaViolation): boolean =>
  keyword === 'anyOf' || keyword === 'oneOf'

/**
 * A value that matches no alternative has a violation for each. Keeps those inside an alternative
 * of the right type, else reports the alternatives.
 */
function collapseAlternatives(violations: readonly SchemaViolation[]): SchemaViolation[] {
  const suppressed = new Set<SchemaViolation>()
  for (const choice of violations.filter(isChoice)) {
    const branches = violations.filter((one) => one !== choice && isWithin(one, choice))
    const inside = branches.filter(
      ({ pointer, names }) => pointer !== choice.pointer || names.length > 0,
    )
    if (inside.length > 0) suppressed.add(choice)
    for (const branch of branches) if (!inside.includes(branch)) suppressed.add(branch)
  }
  return violations.filter((violation) => !suppressed.has(violation))
}

const isWithin = ({ schemaPath }: SchemaViolation, choice: SchemaViolation): boolean =>
  schemaPath.startsWith(`${choice.schemaPath}/${choice.keyword}/`)

function issuesOfViolation(violation: SchemaViolation): ValidationIssue[] {
  const { pointer, keyword, names } = violation
  if (names.length === 0) return [{ pointer: pointer, detail: detailOf(violation) }]
  return names.map((name) => ({
    pointer: `${pointer}/${escapeJsonPointer(name)}`,
    ...(keyword === 'required'
      ? describeMissingField(name, violation)
      : describeUnknownField(name, violation)),
  }))
}

/** A missing field may be present under a misspelled name. */
function describeMissingField(name: string, { value, schema }: SchemaViolation) {
  const known = schema.properties ?? {}
  const unknownNames = namesIn(value).filter((one) => !Object.hasOwn(known, one))
  const closest = findClosestWord(name, unknownNames)
  const hint = closest === null ? '' : `: did you mean it by ${closest}?`
  return { detail: `is required${hint}` }
}

function describeUnknownField(name: string, { value, schema, isTextInput }: SchemaViolation) {
  const present = new Set(namesIn(value))
  const known = Object.entries(schema.properties ?? {})
  // Defaults were filled in before: such a field may be absent from the input.
  const open = known.filter(([one, field]) => !present.has(one) || field.default !== undefined)
  const closest = findClosestWord(
    name,
    open.map(([one]) => one),
  )
  const detail = isTextInput === true ? 'is not a parameter here' : 'is not a field here'
  return closest === null
    ? { detail }
    : { detail: `${detail}: did you mean ${closest}?`, did_you_mean: closest }
}

const namesIn = (given: unknown): string[] =>
  typeof given === 'object' && given !== null ? Object.keys(given) : []

const TYPED = new Set(['type', 'anyOf', 'oneOf'])

function detailOf({ keyword, schema, value, message, isTextInput }: SchemaViolation): string {
  if (isTextInput === true && TYPED.has(keyword) && typeof value === 'string')
    return `must be ${describeAcceptedSchemaValues(schema)}`
  switch (keyword) {
    case 'type':
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return `must be ${describeAcceptedSchemaValues(schema)}, not ${describeValueType(value)}`
    case 'anyOf':
    case 'oneOf':
      return acceptsValueType(schema, value)
        ? `must be ${describeAcceptedSchemaValues(schema)}`
        : `must be ${describeAcceptedSchemaValues(schema)}, not ${describeValueType(value)}`
    case 'enum':
    case 'const':
      return `must be ${describeAcceptedSchemaValues(schema)}`
    case 'minLength':
    case 'maxLength':
      return `must have ${describeCountRange(CHARACTER_SINGULAR_AND_PLURAL, schema.minLength, schema.maxLength)}`
    case 'minItems':
    case 'maxItems':
      return `must have ${describeCountRange(ENTRIES, schema.minItems, schema.maxItems)}`
    case 'minProperties':
    case 'maxProperties':
      return `must have ${describeCountRange(FIELDS, schema.minProperties, schema.maxProperties)}`
    case 'uniqueItems':
      return 'must not have the same entry twice'
    case 'pattern':
      return patternErrorMessage(schema.pattern, undefined) ?? byDescription(schema)
    case 'format':
      return patternErrorMessage(undefined, schema.format) ?? byDescription(schema)
    default:
      return message
  }
}

/** For a pattern without a description. */
const byDescription = ({ description }: DescribableJsonSchema): string =>
  description === undefined ? 'does not have the required format' : `must be: ${description}`
