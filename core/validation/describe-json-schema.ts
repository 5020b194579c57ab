import { describePattern } from './request-schema-regex-patterns.ts'

/** The parts of a JSON schema that can be described in words. */
export interface DescribableJsonSchema {
  readonly type?: string
  readonly const?: unknown
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly DescribableJsonSchema[]
  readonly oneOf?: readonly DescribableJsonSchema[]
  readonly pattern?: string
  readonly format?: string
  readonly description?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly minProperties?: number
  readonly maxProperties?: number
  readonly properties?: Readonly<Record<string, DescribableJsonSchema>>
}

export const CHARACTER_SINGULAR_AND_PLURAL = ['character', 'characters'] as const

/** Suffix of descriptions of USDC amounts. Marks the field as an amount. */
export const USDC_DESCRIPTION_SUFFIX = 'in USDC with at most six decimals.'

/** Describes accepted values as a noun: `a whole number from 1 to 50`, `a UUID or null`. */
export function describeAcceptedSchemaValues(shape: DescribableJsonSchema): string {
  const { anyOf, oneOf = anyOf } = shape
  if ('const' in shape) return JSON.stringify(shape.const)
  if (shape.enum !== undefined) return `one of ${shape.enum.join(', ')}`
  if (oneOf !== undefined) return alternatives(oneOf.map(describeAcceptedSchemaValues))
  switch (shape.type) {
    case 'string':
      return describePattern(shape.pattern, shape.format) ?? `a string${ofLength(shape)}`
    case 'number':
      return isAmount(shape)
        ? `a USDC amount${range(shape)} (at most six decimals)`
        : `a number${range(shape)}`
    case 'integer':
      return `a whole number${range(shape)}`
    case 'boolean':
      return 'true or false'
    case 'array':
      return 'a list'
    case 'object':
      return 'an object'
    case 'null':
      return 'null'
    default:
      return 'another value'
  }
}

/** Describes a value by its type; numbers by value. Strings may be secrets and are not repeated. */
export function describeValueType(given: unknown): string {
  if (typeof given === 'string') return 'a string'
  if (Array.isArray(given)) return 'a list'
  return typeof given === 'object' && given !== null ? 'an object' : String(given)
}

/** Whether a schema accepts values of this type. If so, errors concern the value. */
export function acceptsValueType(shape: DescribableJsonSchema, given: unknown): boolean {
  const { anyOf = [], oneOf = anyOf } = shape
  if (oneOf.length > 0) return oneOf.some((one) => acceptsValueType(one, given))
  if (typeof given === 'string') return shape.type === undefined || shape.type === 'string'
  if (Array.isArray(given)) return shape.type === 'array'
  return typeof given === 'object' && given !== null && shape.type === 'object'
}

/** Describes a number of items: `1 to 10 entries`, `at least 1 field`. */
export function describeCountRange(
  [one, more]: readonly [string, string],
  min = 0,
  max = Infinity,
) {
  const noun = (max === Infinity ? min : max) === 1 ? one : more
  if (max === Infinity) return `at least ${min} ${noun}`
  if (min === 0) return `at most ${max} ${noun}`
  return min === max ? `exactly ${max} ${noun}` : `${min} to ${max} ${noun}`
}

const isAmount = ({ description = '' }: DescribableJsonSchema): boolean =>
  description.endsWith(USDC_DESCRIPTION_SUFFIX)

const alternatives = (nouns: readonly string[]): string => [...new Set(nouns)].join(' or ')

const ofLength = ({ minLength, maxLength }: DescribableJsonSchema): string =>
  minLength === undefined && maxLength === undefined
    ? ''
    : ` of ${describeCountRange(CHARACTER_SINGULAR_AND_PLURAL, minLength, maxLength)}`

function range({
  minimum,
  maximum,
  exclusiveMinimum,
  exclusiveMaximum,
}: DescribableJsonSchema): string {
  if (minimum !== undefined && maximum !== undefined) return ` from ${minimum} to ${maximum}`
  const bounds = [
    ...(exclusiveMinimum === undefined ? [] : [`above ${exclusiveMinimum}`]),
    ...(minimum === undefined ? [] : [`at least ${minimum}`]),
    ...(exclusiveMaximum === undefined ? [] : [`below ${exclusiveMaximum}`]),
    ...(maximum === undefined ? [] : [`at most ${maximum}`]),
  ].join(' and ')
  return bounds === '' ? '' : ` ${bounds.startsWith('at') ? 'of ' : ''}${bounds}`
}
