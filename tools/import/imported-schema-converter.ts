import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { findPatternExcess } from '../community/untrusted-pattern-cost.ts'

/**
 * Turns schemas of OpenAPI 3.0, 3.1 and MCP into self-contained JSON Schema 2020-12. References are kept and
 * their targets copied to `$defs`: copies in place of references may grow without bound.
 */

export type UntrustedJson = Readonly<Record<string, unknown>>

const COPIED = new Set([
  ...['type', 'enum', 'const', 'required', 'default', 'format', 'minimum', 'maximum'],
  ...['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'],
  ...['multipleOf', 'exclusiveMinimum', 'exclusiveMaximum'],
])
const SINGLE = ['items', 'additionalProperties', 'not'] as const
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'] as const
const LOCAL_REFERENCE = /^#\/(?:components\/schemas|\$defs|definitions)\/([^/]+)$/
const FIELD_NAME = /^[A-Za-z_$@][A-Za-z0-9_$@.:-]{0,63}$/
const MAX_PROSE_CHARS = 300
const MAX_PATTERNS = 8
const MAX_TRIED_PATTERNS = 32
const MAX_UNIQUE_ITEMS = 256
const MAX_DEPTH = 40

/** Of the schemas of one tool, before prose and unknown keywords are left out. */
const MAX_SOURCE_CHARS = 4 * LIMITS.communitySchemaBytes

/** Characters of parts of a document: many operations refer to the same part. */
const sourceChars = new WeakMap<object, number>()

function sourceCharsOf(part: object): number {
  const known = sourceChars.get(part)
  if (known !== undefined) return known
  const chars = JSON.stringify(part).length
  sourceChars.set(part, chars)
  return chars
}

/** The first characters; half of a pair at the end is left out, since it cannot be stored. */
export const cutText = (text: string, maxChars: number): string =>
  text.slice(0, maxChars).replace(/[\uD800-\uDBFF]$/, '')

export const isUntrustedJsonObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Converts the schemas of one tool; `definitions` are the named schemas of the document. */
export class ImportedSchemaConverter {
  readonly #definitions: UntrustedJson
  readonly #where: string
  readonly #copied = new Map<string, unknown>()
  readonly #open = new Set<string>()
  #patterns = 0
  #triedPatterns = 0
  #sourceChars = 0

  constructor(definitions: UntrustedJson, where: string) {
    this.#definitions = definitions
    this.#where = where
  }

  /** The definitions that converted schemas refer to. */
  get definitions(): Record<string, unknown> {
    return Object.fromEntries(this.#copied)
  }

  /** Characters of what was converted, as they are in the document. */
  get sourceChars(): number {
    return this.#sourceChars
  }

  /** Throws `import_refused` for references to other documents, to nothing, or to themselves. */
  convert(schema: unknown, depth = 0): Record<string, unknown> | boolean {
    if (typeof schema === 'boolean') return schema
    if (!isUntrustedJsonObject(schema)) throw this.#refuse('has a schema that is no object')
    if (depth === 0) this.#count(schema)
    if (depth > MAX_DEPTH) throw this.#refuse(`is nested deeper than ${MAX_DEPTH} levels`)
    if (schema['$ref'] !== undefined) return this.#reference(schema['$ref'], depth)
    const made: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(schema)) if (COPIED.has(name)) made[name] = value
    for (const name of ['title', 'description'] as const) {
      const text = schema[name]
      if (typeof text === 'string') made[name] = cutText(text, MAX_PROSE_CHARS)
    }
    this.#copyPattern(schema, made)
    for (const name of SINGLE)
      if (schema[name] !== undefined) made[name] = this.convert(schema[name], depth + 1)
    for (const name of LISTS) {
      const list = schema[name]
      if (Array.isArray(list) && list.length > 0)
        made[name] = list.map((one) => this.convert(one, depth + 1))
    }
    this.#convertProperties(schema, made, depth)
    return toDialect2020(schema, made)
  }

  #convertProperties(schema: UntrustedJson, made: Record<string, unknown>, depth: number): void {
    const { properties, required } = schema
    if (!isUntrustedJsonObject(properties)) return
    // A name that the station cannot check is left to the server.
    const kept = Object.entries(properties).filter(([name]) => FIELD_NAME.test(name))
    made['properties'] = Object.fromEntries(
      kept.map(([name, one]) => [name, this.convert(one, depth + 1)]),
    )
    if (Array.isArray(required))
      made['required'] = [...new Set(required)].filter((name) => typeof name === 'string')
  }

  #copyPattern({ pattern, maxLength }: UntrustedJson, made: Record<string, unknown>): void {
    if (typeof pattern !== 'string' || this.#patterns >= MAX_PATTERNS) return
    // Patterns that are left out have been compiled too.
    if (this.#triedPatterns >= MAX_TRIED_PATTERNS) return
    this.#triedPatterns += 1
    try {
      if (findPatternExcess(pattern, maxLength) !== null) return
    } catch {
      return // The server checks what cannot be checked in linear time.
    }
    this.#patterns += 1
    made['pattern'] = pattern
  }

  #reference(reference: unknown, depth: number): Record<string, unknown> {
    const [, encoded] = LOCAL_REFERENCE.exec(String(reference)) ?? []
    if (encoded === undefined)
      throw this.#refuse(`refers to ${String(reference).slice(0, 100)}, and nothing is fetched`)
    const name = decodePointer(encoded)
    const target = Object.hasOwn(this.#definitions, name) ? this.#definitions[name] : undefined
    if (target === undefined) throw this.#refuse(`refers to ${name}, which does not exist`)
    if (this.#open.has(name)) throw this.#refuse(`has a schema that refers to itself: ${name}`)
    const id = name.replace(/[^A-Za-z0-9_.-]/g, '_')
    if (!this.#copied.has(id)) {
      if (isUntrustedJsonObject(target)) this.#count(target)
      this.#open.add(name)
      this.#copied.set(id, this.convert(target, depth + 1))
      this.#open.delete(name)
    }
    return { $ref: `#/$defs/${id}` }
  }

  /** A part that all operations refer to would be converted as often as there are operations. */
  #count(part: object): void {
    this.#sourceChars += sourceCharsOf(part)
    if (this.#sourceChars > MAX_SOURCE_CHARS)
      throw this.#refuse(`has schemas of more than ${MAX_SOURCE_CHARS} characters`)
  }

  #refuse(what: string): ServiceError {
    return new ServiceError('import_refused', {
      operation: this.#where,
      detail: `${this.#where} ${what}.`,
    })
  }
}

/** OpenAPI 3.0 has `nullable`, and bounds that are exclusive by a flag. */
function toDialect2020(
  schema: UntrustedJson,
  made: Record<string, unknown>,
): Record<string, unknown> {
  for (const [flag, bound] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    if (typeof made[flag] !== 'boolean') continue
    const isExclusive = made[flag] && typeof made[bound] === 'number'
    const value = made[bound]
    delete made[flag]
    if (!isExclusive) continue
    made[flag] = value
    delete made[bound]
  }
  const { maxItems } = schema
  if (
    schema['uniqueItems'] === true &&
    typeof maxItems === 'number' &&
    maxItems <= MAX_UNIQUE_ITEMS
  )
    made['uniqueItems'] = true
  if (schema['nullable'] !== true) return made
  if (typeof made['type'] === 'string' && made['enum'] === undefined)
    return { ...made, type: [made['type'], 'null'] }
  return { anyOf: [made, { type: 'null' }] }
}

function decodePointer(text: string): string {
  try {
    return decodeURIComponent(text).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return text
  }
}
