import { invalidInputError, type ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { escapeJsonPointer } from '../../core/validation/validation-errors.ts'

/**
 * Decides whether a JSON Schema of a stranger may be compiled, and bounds what a validation with it can cost.
 * Recursion is refused: together with `anyOf` it makes a validation exponential in the depth of the value.
 */

export type ToolJsonSchema = Readonly<Record<string, unknown>>

/** What a validation with a schema costs. */
export interface SchemaValidationCost {
  /** Subschemas, each counted as often as it is applied through `$ref`. */
  readonly nodes: number
  readonly patterns: number
}

const DIALECTS: ReadonlySet<unknown> = new Set([
  undefined,
  'https://json-schema.org/draft/2020-12/schema',
  'https://json-schema.org/draft/2020-12/schema#',
])
/** They name other documents, change what a reference means, or make validation asynchronous. */
const REFUSED_KEYWORDS: ReadonlySet<string> = new Set([
  ...['$id', '$anchor', '$dynamicRef', '$dynamicAnchor', '$recursiveRef', '$recursiveAnchor'],
  ...['$vocabulary', '$async', 'id', '__proto__'],
])
const SINGLE = ['items', 'contains', 'not', 'if', 'then', 'else', 'propertyNames'] as const
const SINGLE_OR_BOOLEAN = [
  ...['additionalProperties', 'unevaluatedProperties', 'unevaluatedItems', 'additionalItems'],
  'contentSchema',
]
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'] as const
const MAPS = ['properties', 'patternProperties', 'dependentSchemas', 'dependencies'] as const
const NAMES = ['dependentRequired', 'dependencies'] as const
const DEFINITIONS = ['$defs', 'definitions'] as const
const PROSE = ['description', 'title', '$comment'] as const
const FIELD_NAME = /^[A-Za-z_$@][A-Za-z0-9_$@.:-]{0,63}$/

/** The fields of this name in the body of the request that brings the schema. */
export interface UntrustedSchemaRequestField {
  /** Of the schema in the body, such as `/input_schema`. */
  readonly pointer: string
  /** Names that its root must not use for fields. */
  readonly reserved: readonly string[]
}

/** Throws `invalid_input` with a pointer for a schema that is too large, recursive or not self-contained. */
export function assertUntrustedSchemaAcceptable(
  schema: ToolJsonSchema,
  place: UntrustedSchemaRequestField,
): SchemaValidationCost {
  const text = JSON.stringify(schema)
  if (Buffer.byteLength(text) > LIMITS.communitySchemaBytes)
    throw refuse(place.pointer, `must have at most ${LIMITS.communitySchemaBytes} bytes as JSON`)
  if (!DIALECTS.has(schema['$schema']))
    throw refuse(`${place.pointer}/$schema`, 'must be JSON Schema 2020-12, or absent')
  assertPlainValues(schema, place.pointer, 0)
  if (schema['type'] !== 'object')
    throw refuse(`${place.pointer}/type`, 'must be "object": inputs and answers are JSON objects')
  for (const name of place.reserved)
    if (isObject(schema['properties']) && Object.hasOwn(schema['properties'], name))
      throw refuse(`${place.pointer}/properties/${name}`, 'is a name that the station uses itself')
  const walk = new SchemaWalk(schema, place.pointer)
  const cost = walk.costOf(schema, place.pointer)
  if (cost.nodes > LIMITS.communitySchemaNodes)
    throw refuse(
      place.pointer,
      `applies ${cost.nodes} subschemas through its references; at most ${LIMITS.communitySchemaNodes}`,
    )
  if (cost.patterns > LIMITS.communitySchemaPatterns)
    throw refuse(place.pointer, `has more than ${LIMITS.communitySchemaPatterns} patterns`)
  return cost
}

const refuse = (pointer: string, detail: string): ServiceError => invalidInputError(pointer, detail)

const isObject = (value: unknown): value is ToolJsonSchema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Depth, refused names and the length of prose, wherever they are. */
function assertPlainValues(value: unknown, pointer: string, depth: number): void {
  if (depth > LIMITS.communitySchemaDepth)
    throw refuse(pointer, `is nested deeper than ${LIMITS.communitySchemaDepth} levels`)
  if (typeof value !== 'object' || value === null) return
  for (const [name, inner] of Object.entries(value)) {
    const at = `${pointer}/${escapeJsonPointer(name)}`
    if (name === '__proto__') throw refuse(at, 'is not allowed')
    if (typeof inner === 'string' && inner.length > LIMITS.communitySchemaProse)
      throw refuse(at, `must have at most ${LIMITS.communitySchemaProse} characters`)
    assertPlainValues(inner, at, depth + 1)
  }
}

/** Counts what a schema applies. References are followed, and each target is counted once and remembered. */
class SchemaWalk {
  readonly #root: ToolJsonSchema
  readonly #rootPointer: string
  readonly #known = new Map<string, SchemaValidationCost>()
  readonly #open = new Set<string>()

  constructor(root: ToolJsonSchema, rootPointer: string) {
    this.#root = root
    this.#rootPointer = rootPointer
  }

  costOf(schema: unknown, pointer: string): SchemaValidationCost {
    if (typeof schema === 'boolean') return { nodes: 1, patterns: 0 }
    if (!isObject(schema)) throw refuse(pointer, 'must be a schema: an object, true or false')
    assertKeywords(schema, pointer)
    const parts = [...this.#subschemas(schema, pointer)]
    const own = Number(typeof schema['pattern'] === 'string')
    const byName = isObject(schema['patternProperties'])
      ? Object.keys(schema['patternProperties']).length
      : 0
    const values = Array.isArray(schema['enum']) ? Math.ceil(schema['enum'].length / 8) : 0
    return {
      nodes: parts.reduce((sum, { nodes }) => sum + nodes, 1 + values + namesIn(schema)),
      patterns: parts.reduce((sum, { patterns }) => sum + patterns, own + byName),
    }
  }

  *#subschemas(schema: ToolJsonSchema, pointer: string): Generator<SchemaValidationCost> {
    for (const name of [...SINGLE, ...SINGLE_OR_BOOLEAN])
      if (schema[name] !== undefined) yield this.costOf(schema[name], `${pointer}/${name}`)
    for (const name of LISTS) {
      const list = schema[name]
      if (list === undefined) continue
      if (!Array.isArray(list) || list.length === 0)
        throw refuse(`${pointer}/${name}`, 'must be a list of schemas')
      for (const [at, one] of list.entries()) yield this.costOf(one, `${pointer}/${name}/${at}`)
    }
    for (const name of MAPS) {
      const map = schema[name]
      if (map === undefined) continue
      if (!isObject(map)) throw refuse(`${pointer}/${name}`, 'must be an object of schemas')
      for (const [field, one] of Object.entries(map)) {
        const at = `${pointer}/${name}/${escapeJsonPointer(field)}`
        if (name === 'properties' && !FIELD_NAME.test(field))
          throw refuse(at, 'must be a field name of at most 64 ASCII letters, digits and _$@.:-')
        // A list of names, which `namesIn` counts.
        if (name !== 'dependencies' || !Array.isArray(one)) yield this.costOf(one, at)
      }
    }
    if (schema['$ref'] !== undefined) yield this.#costOfReference(schema['$ref'], pointer)
    // Definitions that nothing refers to cost nothing, and have to be valid all the same.
    for (const name of DEFINITIONS) {
      const map = schema[name]
      if (map === undefined) continue
      if (!isObject(map)) throw refuse(`${pointer}/${name}`, 'must be an object of schemas')
      for (const [field, one] of Object.entries(map))
        this.costOf(one, `${pointer}/${name}/${escapeJsonPointer(field)}`)
    }
  }

  #costOfReference(reference: unknown, pointer: string): SchemaValidationCost {
    const at = `${pointer}/$ref`
    const match =
      typeof reference === 'string' ? /^#\/(\$defs|definitions)\/([^/%~]+)$/.exec(reference) : null
    if (match === null)
      throw refuse(at, 'must name a definition of this schema: #/$defs/NAME. Nothing is fetched')
    const [, group = '', name = ''] = match
    const known = this.#known.get(`${group}/${name}`)
    if (known !== undefined) return known
    const definitions = this.#root[group]
    if (!isObject(definitions) || !Object.hasOwn(definitions, name))
      throw refuse(at, `names no definition: ${String(reference)}`)
    if (this.#open.has(`${group}/${name}`))
      throw refuse(at, 'refers to itself; recursive schemas are not accepted')
    this.#open.add(`${group}/${name}`)
    const cost = this.costOf(definitions[name], `${this.#rootPointer}/${group}/${name}`)
    this.#open.delete(`${group}/${name}`)
    this.#known.set(`${group}/${name}`, cost)
    return cost
  }
}

/** Names that an object is searched for, for each of its fields. */
const namesIn = (schema: ToolJsonSchema): number =>
  NAMES.flatMap((name) => (isObject(schema[name]) ? Object.values(schema[name]) : []))
    .filter(Array.isArray)
    .reduce((sum, list) => sum + list.length, 0)

function assertKeywords(schema: ToolJsonSchema, pointer: string): void {
  for (const name of Object.keys(schema))
    if (REFUSED_KEYWORDS.has(name)) throw refuse(`${pointer}/${name}`, 'is not accepted here')
  for (const name of PROSE)
    if (schema[name] !== undefined && typeof schema[name] !== 'string')
      throw refuse(`${pointer}/${name}`, 'must be text')
  const { uniqueItems, maxItems } = schema
  const most = LIMITS.communityUniqueItems
  // All items are compared.
  if (uniqueItems === true && !(typeof maxItems === 'number' && maxItems <= most))
    throw refuse(`${pointer}/uniqueItems`, `needs a maxItems of at most ${most}`)
}
