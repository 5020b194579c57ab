import { findClosestWord } from './did-you-mean.ts'
import { patternErrorMessage } from './schema-patterns.ts'
import {
  CHARACTER_NOUNS,
  describeCountRange,
  describeValueType,
  describeSchema,
  acceptsValueType,
  type SchemaNode,
} from './describe-schema.ts'

/** One reason a value does not fit, by JSON pointer (RFC 6901). */
export interface ValidationIssue {
  readonly pointer: string
  readonly detail: string
  /** The field that was meant, where an unknown one is spelt nearly like it. */
  readonly did_you_mean?: string
}

/** What a validator complains of, with the part of the schema and the value it is about. */
export interface SchemaViolation {
  readonly keyword: string
  /** The pointer of the value, and the place in the schema. */
  readonly pointer: string
  readonly schemaPath: string
  /** The fields that are missing or unknown. */
  readonly names: readonly string[]
  readonly schema: SchemaNode
  readonly value: unknown
  /** Query, path and headers are text on the wire: that it is a string tells nothing there. */
  readonly isTextInput?: boolean
  /** What the validator says itself, for what has no words of ours. */
  readonly message: string
}

const ENTRIES = ['entry', 'entries'] as const
const FIELDS = ['field', 'fields'] as const

/** A name as a part of a JSON pointer. */
export const escapeJsonPointer = (name: string): string =>
  name.includes('~') || name.includes('/') ? name.replace(/~/g, '~0').replace(/\//g, '~1') : name

/** The complaints of a validator in plain words: what is wrong, and what is taken instead. */
export function describeSchemaViolations(
  complaints: readonly SchemaViolation[],
): ValidationIssue[] {
  return collapseAlternatives(complaints).flatMap(issuesOfViolation)
}

const isChoice = ({ keyword }: SchemaViolation): boolean =>
  keyword === 'anyOf' || keyword === 'oneOf'

/**
 * A value that fits no alternative is complained of once for each. Where one of them had the right
 * kind, what it complains of inside is told, else the alternatives are.
 */
function collapseAlternatives(complaints: readonly SchemaViolation[]): SchemaViolation[] {
  const untold = new Set<SchemaViolation>()
  for (const choice of complaints.filter(isChoice)) {
    const branches = complaints.filter((one) => one !== choice && isWithin(one, choice))
    const inside = branches.filter(
      ({ pointer, names }) => pointer !== choice.pointer || names.length > 0,
    )
    if (inside.length > 0) untold.add(choice)
    for (const branch of branches) if (!inside.includes(branch)) untold.add(branch)
  }
  return complaints.filter((complaint) => !untold.has(complaint))
}

const isWithin = ({ schemaPath }: SchemaViolation, choice: SchemaViolation): boolean =>
  schemaPath.startsWith(`${choice.schemaPath}/${choice.keyword}/`)

function issuesOfViolation(complaint: SchemaViolation): ValidationIssue[] {
  const { pointer, keyword, names } = complaint
  if (names.length === 0) return [{ pointer: pointer, detail: detailOf(complaint) }]
  return names.map((name) => ({
    pointer: `${pointer}/${escapeJsonPointer(name)}`,
    ...(keyword === 'required'
      ? describeMissingField(name, complaint)
      : describeUnknownField(name, complaint)),
  }))
}

/** A field that is missing may stand there by another name. */
function describeMissingField(name: string, { value, schema }: SchemaViolation) {
  const known = schema.properties ?? {}
  const strange = namesIn(value).filter((one) => !Object.hasOwn(known, one))
  const meant = findClosestWord(name, strange)
  const hint = meant === null ? '' : `: did you mean it by ${meant}?`
  return { detail: `is required${hint}` }
}

function describeUnknownField(name: string, { value, schema, isTextInput }: SchemaViolation) {
  const there = new Set(namesIn(value))
  const known = Object.entries(schema.properties ?? {})
  // The default of a field was filled in before: that field was not given.
  const open = known.filter(([one, field]) => !there.has(one) || field.default !== undefined)
  const meant = findClosestWord(
    name,
    open.map(([one]) => one),
  )
  const detail = isTextInput === true ? 'is not a parameter here' : 'is not a field here'
  return meant === null
    ? { detail }
    : { detail: `${detail}: did you mean ${meant}?`, did_you_mean: meant }
}

const namesIn = (given: unknown): string[] =>
  typeof given === 'object' && given !== null ? Object.keys(given) : []

const TYPED = new Set(['type', 'anyOf', 'oneOf'])

function detailOf({ keyword, schema, value, message, isTextInput }: SchemaViolation): string {
  if (isTextInput === true && TYPED.has(keyword) && typeof value === 'string')
    return `must be ${describeSchema(schema)}`
  switch (keyword) {
    case 'type':
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return `must be ${describeSchema(schema)}, not ${describeValueType(value)}`
    case 'anyOf':
    case 'oneOf':
      return acceptsValueType(schema, value)
        ? `must be ${describeSchema(schema)}`
        : `must be ${describeSchema(schema)}, not ${describeValueType(value)}`
    case 'enum':
    case 'const':
      return `must be ${describeSchema(schema)}`
    case 'minLength':
    case 'maxLength':
      return `must have ${describeCountRange(CHARACTER_NOUNS, schema.minLength, schema.maxLength)}`
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

/** For a pattern that nobody has put in words. */
const byDescription = ({ description }: SchemaNode): string =>
  description === undefined ? 'has a form that is not taken here' : `must be: ${description}`
