import { describePattern, patternErrorMessage } from './request-schema-regex-patterns.ts'
import { toPortablePattern } from './portable-pattern.ts'

/**
 * JSON Schema as every client takes it: the APIs of models, MCP clients in any language, grammars of local
 * models. One schema that one of them refuses disables the whole list (decision 410). What is left out
 * is checked when the tool is called: a portable schema accepts whatever the real one accepts.
 */

export type PortableSchema = Readonly<Record<string, unknown>>
type Schema = Readonly<Record<string, unknown>>

const MAX_DEPTH = 8
const MAX_SUBSCHEMAS = 2_000
const MAX_SCHEMA_CHARS = 32_768
const MAX_TEXT_CHARS = 1_000
const MAX_ENUM_VALUES = 250
const MAX_TOLD_PATTERN_CHARS = 100
/** Grammars of local models unroll lengths, and refuse longer ones. */
const MAX_REPEATS = 2_000
/** Field names that the APIs of models take. */
const FIELD_NAME = /^[A-Za-z0-9_.-]{1,64}$/

const TYPE_KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'enum'],
  number: ['minimum', 'maximum', 'enum'],
  integer: ['minimum', 'maximum', 'enum'],
  array: ['minItems', 'maxItems'],
  object: [],
  boolean: [],
  null: [],
}
const LENGTH_WORDS: Readonly<Record<string, string>> = {
  minLength: 'At least # characters.',
  maxLength: 'At most # characters.',
  minItems: 'At least # items.',
  maxItems: 'At most # items.',
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const portable = new WeakMap<object, PortableSchema>()

/** Returns the schema of an input or an answer in portable form: an object with bounded contents. */
export function toPortableSchema(schema: unknown): PortableSchema {
  if (!isSchema(schema)) return { type: 'object' }
  const known = portable.get(schema)
  if (known !== undefined) return known
  const plain = JSON.parse(JSON.stringify(schema)) as Schema
  const made = convertWithinBounds(plain)
  portable.set(schema, made)
  return made
}

function convertWithinBounds(schema: Schema): PortableSchema {
  for (let depth = MAX_DEPTH; depth > 0; depth = Math.floor(depth / 2)) {
    const made = new SchemaConverter(schema, depth).convertRoot()
    if (JSON.stringify(made).length <= MAX_SCHEMA_CHARS) return made
  }
  return { type: 'object' }
}

class SchemaConverter {
  readonly #root: Schema
  readonly #maxDepth: number
  #left = MAX_SUBSCHEMAS

  constructor(root: Schema, maxDepth: number) {
    this.#root = root
    this.#maxDepth = maxDepth
  }

  convertRoot(): PortableSchema {
    return this.#object(this.#resolve(this.#root), 0)
  }

  #convert(given: unknown, depth: number): PortableSchema {
    if (!isSchema(given) || depth > this.#maxDepth || this.#left-- <= 0) return {}
    const schema = this.#resolve(given)
    const alternatives = alternativesOf(schema)
    if (alternatives !== null) return this.#anyOf(schema, alternatives, depth)
    const type = typeOf(schema)
    if (type === 'object') return this.#object(schema, depth)
    const kept = type === undefined ? {} : keywordsOf(schema, type)
    const items = type === 'array' ? { items: this.#convert(schema['items'], depth + 1) } : {}
    return { ...(type === undefined ? {} : { type }), ...textsOf(schema, kept), ...kept, ...items }
  }

  /** Follows references and merges what all must hold; the first word on a keyword counts. */
  #resolve(schema: Schema, seen: readonly string[] = []): Schema {
    const { $ref: reference, allOf, ...own } = schema
    const parts = [
      ...(typeof reference === 'string' && !seen.includes(reference)
        ? [this.#resolve(this.#lookUp(reference), [...seen, reference])]
        : []),
      ...(Array.isArray(allOf) && seen.length < MAX_DEPTH
        ? allOf.filter(isSchema).map((one) => this.#resolve(one, [...seen, '']))
        : []),
    ]
    return parts.reduce<Schema>(mergeBoth, own)
  }

  #lookUp(reference: string): Schema {
    if (!reference.startsWith('#')) return {}
    let found: unknown = this.#root
    for (const step of reference.slice(1).split('/').slice(1))
      found = isSchema(found) ? found[decodeStep(step)] : undefined
    return isSchema(found) ? found : {}
  }

  #anyOf(schema: Schema, alternatives: readonly Schema[], depth: number): PortableSchema {
    const members = alternatives.flatMap((one) => {
      const made = this.#convert(one, depth)
      return Array.isArray(made['anyOf']) ? (made['anyOf'] as PortableSchema[]) : [made]
    })
    const texts = textsOf(schema, {})
    const distinct = [...new Map(members.map((one) => [JSON.stringify(one), one])).values()]
    if (distinct.some((one) => one['type'] === undefined)) return texts
    const joined = joinEnums(distinct)
    return joined.length === 1 ? { ...joined[0], ...texts } : { ...texts, anyOf: joined }
  }

  #object(unmerged: Schema, depth: number): PortableSchema {
    const schema = mergeAlternatives(unmerged, (one) => this.#resolve(one))
    const given = isSchema(schema['properties']) ? Object.entries(schema['properties']) : []
    const isNamed = ([name]: [string, unknown]) => FIELD_NAME.test(name)
    const left = given.filter((one) => !isNamed(one)).map(([name]) => JSON.stringify(name))
    const properties = Object.fromEntries(
      (depth < this.#maxDepth ? given : [])
        .filter(isNamed)
        .map(([name, inner]) => [name, this.#convert(inner, depth + 1)]),
    )
    const isWhole = Object.keys(properties).length === given.length
    const demanded = namesIn(schema['required']).filter((name) => Object.hasOwn(properties, name))
    const others = isWhole ? this.#additional(schema, depth) : undefined
    return {
      type: 'object',
      ...textsOf(schema, {}, left.length === 0 ? [] : [`Also takes ${left.join(', ')}.`]),
      ...(depth === 0 || Object.keys(properties).length > 0 ? { properties } : {}),
      ...(demanded.length === 0 ? {} : { required: demanded }),
      ...(others === undefined ? {} : { additionalProperties: others }),
    }
  }

  /** Records become `additionalProperties`. */
  #additional({ additionalProperties: others, patternProperties }: Schema, depth: number): unknown {
    if (isSchema(patternProperties)) {
      const values = Object.values(patternProperties)
      return values.length === 1 && (others === undefined || others === false)
        ? this.#record(values[0], depth)
        : true
    }
    return isSchema(others) ? this.#record(others, depth) : others
  }

  #record(values: unknown, depth: number): unknown {
    const made = this.#convert(values, depth + 1)
    return Object.keys(made).length === 0 ? true : made
  }
}

const decodeStep = (step: string): string => {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return step
  }
}

const namesIn = (value: unknown): string[] =>
  Array.isArray(value)
    ? [...new Set(value.filter((name): name is string => typeof name === 'string'))]
    : []

const schemasIn = (value: unknown): Schema[] => (Array.isArray(value) ? value.filter(isSchema) : [])

/** What two schemas demand together. What only one of them closes stays open. */
function mergeBoth(one: Schema, other: Schema): Schema {
  const { additionalProperties, ...merged }: Record<string, unknown> = { ...other, ...one }
  const fields = [one, other].map(({ properties }) => (isSchema(properties) ? properties : null))
  const [own, others] = fields
  if (own && others) merged['properties'] = { ...others, ...own }
  const required = [...namesIn(one['required']), ...namesIn(other['required'])]
  if (required.length > 0) merged['required'] = [...new Set(required)]
  return (own && others) || additionalProperties === undefined
    ? merged
    : { ...merged, additionalProperties }
}

/** An object with alternatives as one object: what all demand is required, and each field of any is known. */
function mergeAlternatives(schema: Schema, resolve: (one: Schema) => Schema): Schema {
  const members = [...schemasIn(schema['anyOf']), ...schemasIn(schema['oneOf'])].map(resolve)
  if (members.length === 0) return schema
  const { anyOf: _any, oneOf: _one, ...own } = schema
  const fields: Record<string, unknown> = {}
  for (const { properties } of members)
    for (const [name, inner] of Object.entries(isSchema(properties) ? properties : {})) {
      const known = Object.hasOwn(fields, name) ? fields[name] : undefined
      fields[name] = known === undefined ? inner : { anyOf: [known, inner] }
    }
  const [first = [], ...others] = members.map(({ required }) => namesIn(required))
  const byAll = first.filter((name) => others.every((names) => names.includes(name)))
  const isClosed = [own, ...members].every((one) => one['additionalProperties'] === false)
  return {
    ...own,
    properties: { ...fields, ...(isSchema(own['properties']) ? own['properties'] : {}) },
    required: [...namesIn(own['required']), ...byAll],
    additionalProperties: isClosed ? false : undefined,
  }
}

/** The alternatives of a schema that is no object; null for none. */
function alternativesOf(schema: Schema): readonly Schema[] | null {
  const { anyOf, oneOf, type, enum: values, nullable, ...own } = schema
  if (Array.isArray(type))
    return type.map((one) => ({ ...own, enum: values, type: one as unknown }))
  if (nullable === true && typeof type === 'string')
    return [{ ...own, enum: values, type }, { type: 'null' }]
  const members = [...schemasIn(anyOf), ...schemasIn(oneOf)]
  if (members.length > 0)
    return type === undefined && own['properties'] === undefined
      ? members
      : typeof type === 'string' && type !== 'object'
        ? members.map((one) => ({ ...own, type, ...one }))
        : null
  const kinds = [...new Set(Array.isArray(values) && type === undefined ? values.map(kindOf) : [])]
  return kinds.length > 1 ? kinds.map((kind) => ({ ...own, type: kind, enum: values })) : null
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value
}

function typeOf(schema: Schema): string | undefined {
  const { type, enum: values } = schema
  if (typeof type === 'string') return Object.hasOwn(TYPE_KEYWORDS, type) ? type : undefined
  if ('const' in schema) return kindOf(schema['const'])
  if (Array.isArray(values) && values.length > 0) return kindOf(values[0])
  return isSchema(schema['properties']) ? 'object' : undefined
}

/** The keywords of a type that clients share. */
function keywordsOf(schema: Schema, type: string): PortableSchema {
  const kept: Record<string, unknown> = {}
  for (const keyword of TYPE_KEYWORDS[type] ?? []) {
    const value = schema[keyword]
    const isKept = keyword in LENGTH_WORDS ? Number(value) <= MAX_REPEATS : Number.isFinite(value)
    if (typeof value === 'number' && isKept) kept[keyword] = value
  }
  const step = type === 'integer' ? 1 : 0
  const { exclusiveMinimum: above, exclusiveMaximum: below, pattern, format } = schema
  if (typeof above === 'number') kept['minimum'] ??= above + step
  if (typeof below === 'number') kept['maximum'] ??= below - step
  const values = 'const' in schema ? [schema['const']] : schema['enum']
  if (TYPE_KEYWORDS[type]?.includes('enum') && Array.isArray(values)) {
    const kind = type === 'integer' ? 'number' : type
    const own = [...new Set(values)].filter((value) => typeof value === kind && value !== '')
    const isAll = values.every((value) => value !== '')
    if (isAll && own.length > 0 && own.length <= MAX_ENUM_VALUES) kept['enum'] = own
  }
  if (type !== 'string') return kept
  const shared = typeof pattern === 'string' ? toPortablePattern(pattern) : null
  if (shared !== null) kept['pattern'] = shared
  if (format === 'date-time') kept['format'] = format
  return kept
}

/** Title, description and default. What is left out of the keywords is told in words. */
function textsOf(schema: Schema, kept: PortableSchema, more: readonly string[] = []): Schema {
  const { title, description, pattern, format, default: fallback } = schema
  const meant =
    kept['pattern'] === undefined && kept['format'] === undefined && kept['enum'] === undefined
      ? describeRule(pattern, format)
      : null
  const words = [
    ...(typeof description === 'string' && description !== '' ? [description] : []),
    ...(meant === null ? [] : [meant]),
    ...Object.entries(LENGTH_WORDS).flatMap(([keyword, words]) =>
      Number(schema[keyword]) > MAX_REPEATS ? [words.replace('#', String(schema[keyword]))] : [],
    ),
    ...more,
  ].join(' ')
  const isPlain = ['string', 'number', 'boolean'].includes(typeof fallback)
  return {
    ...(typeof title === 'string' ? { title: title.slice(0, MAX_TEXT_CHARS) } : {}),
    ...(words === '' ? {} : { description: words.slice(0, MAX_TEXT_CHARS) }),
    ...(isPlain ? { default: fallback } : {}),
  }
}

/** A rule in words; null where the description of the field says enough. */
function describeRule(pattern: unknown, format: unknown): string | null {
  const meant = describePattern(pattern, format)
  if (meant !== null) return `Must be ${meant}.`
  const isOwn = typeof pattern === 'string' && patternErrorMessage(pattern, format) === null
  return isOwn && pattern.length <= MAX_TOLD_PATTERN_CHARS ? `Must match ${pattern}` : null
}

/** Texts that are alternatives become one list. */
function joinEnums(members: readonly PortableSchema[]): readonly PortableSchema[] {
  const isList = (one: PortableSchema) =>
    one['type'] === 'string' &&
    Array.isArray(one['enum']) &&
    Object.keys(one).every((keyword) => ['type', 'enum', 'title'].includes(keyword))
  const lists = members.filter(isList)
  if (lists.length < 2) return members
  const values = [...new Set(lists.flatMap((one) => one['enum'] as string[]))]
  return [{ type: 'string', enum: values }, ...members.filter((one) => !isList(one))]
}
