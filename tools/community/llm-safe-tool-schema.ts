import {
  isPossiblePromptInjection,
  isIdentifierPossiblePromptInjection,
  toModelSafeText,
} from './llm-safe-builder-text.ts'

/**
 * The JSON Schema of a builder as language models may read it. Every text in it names the builder, has at
 * most 500 characters and keeps the rules for texts of strangers; what a call may contain stays the same.
 */

const SINGLE = new Set([
  ...['items', 'contains', 'not', 'if', 'then', 'else', 'propertyNames', 'contentSchema'],
  ...['additionalProperties', 'unevaluatedProperties', 'unevaluatedItems', 'additionalItems'],
])
const LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const MAPS = new Set([
  ...['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'],
])
const PROSE = new Set(['description', 'title'])
/** Values of the builder. Without them a model guesses, and the call checks them all the same. */
const VALUES = new Set(['enum', 'const', 'default', 'examples'])
/** Names of fields. */
const NAMES = new Set(['required', 'dependentRequired'])
const TEXTS = new Set(['pattern', 'format', 'contentEncoding', 'contentMediaType'])
const NUMBERS_AND_TYPES = new Set([
  ...['type', 'minLength', 'maxLength', 'minimum', 'maximum', 'exclusiveMinimum', 'multipleOf'],
  ...['exclusiveMaximum', 'minItems', 'maxItems', 'uniqueItems', 'minContains', 'maxContains'],
  ...['minProperties', 'maxProperties', 'readOnly', 'writeOnly', 'deprecated'],
])
/** A pattern, a value or a name that is longer says nothing to a model. */
const MAX_VALUE_CHARS = 500

type Schema = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Schemas are large, live long and are shown often. */
const known = new WeakMap<object, { readonly builder: string; readonly shown: unknown }>()

/** Shows a whole schema; `builder` says who wrote it. */
export function toModelSafeSchema(schema: unknown, builder: string): unknown {
  if (!isObject(schema)) return schema
  const earlier = known.get(schema)
  if (earlier?.builder === builder) return earlier.shown
  const shown = showSchema(schema, `[by ${builder}] `)
  known.set(schema, { builder, shown })
  return shown
}

function showSchema(schema: unknown, mark: string): unknown {
  if (!isObject(schema)) return schema
  const kept = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    const shown = showKeyword(keyword, value, mark)
    return shown === undefined ? [] : [[keyword, shown]]
  })
  return Object.fromEntries(kept)
}

/** What a model reads of a keyword; undefined for nothing. Unknown keywords are prose in disguise. */
function showKeyword(keyword: string, value: unknown, mark: string): unknown {
  if (NUMBERS_AND_TYPES.has(keyword)) return value
  if (SINGLE.has(keyword)) return showSchema(value, mark)
  if (LISTS.has(keyword))
    return Array.isArray(value) ? value.map((one) => showSchema(one, mark)) : undefined
  if (MAPS.has(keyword)) return isObject(value) ? showMap(value, mark) : undefined
  if (PROSE.has(keyword)) {
    const text = typeof value === 'string' ? toModelSafeText(value) : null
    return text === null ? undefined : `${mark}${text}`
  }
  if (VALUES.has(keyword) || TEXTS.has(keyword)) return isModelSafeValue(value) ? value : undefined
  if (keyword === '$ref') return isReferenceShown(value) ? value : undefined
  if (NAMES.has(keyword)) return showNames(value)
  return undefined
}

const isShownName = (name: string): boolean =>
  name.length <= MAX_VALUE_CHARS &&
  !isPossiblePromptInjection(name) &&
  !isIdentifierPossiblePromptInjection(name)

/** Whether its definition is shown too: clients refuse a schema, and all tools with it, for a reference to nothing. */
const isReferenceShown = (value: unknown): boolean =>
  typeof value === 'string' && isShownName(value) && isShownName(value.replace(/^.*\//s, ''))

const showMap = (map: Schema, mark: string): Schema =>
  Object.fromEntries(
    Object.entries(map)
      .filter(([name]) => isShownName(name))
      .map(([name, inner]) => [name, showSchema(inner, mark)]),
  )

function showNames(value: unknown): unknown {
  if (Array.isArray(value))
    return value.filter((name) => typeof name === 'string' && isShownName(name))
  if (!isObject(value)) return undefined
  const entries = Object.entries(value).filter(([name]) => isShownName(name))
  return Object.fromEntries(entries.map(([name, names]) => [name, showNames(names)]))
}

/** Whether each text in a value may be read by a model. */
export function isModelSafeValue(value: unknown): boolean {
  if (typeof value === 'string') return isShownName(value)
  if (Array.isArray(value)) return value.every(isModelSafeValue)
  if (!isObject(value)) return true
  return Object.entries(value).every(
    ([name, inner]) => isShownName(name) && isModelSafeValue(inner),
  )
}
