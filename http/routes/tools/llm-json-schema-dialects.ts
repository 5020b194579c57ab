/** Portable schemas (`core/validation/portable-schema.ts`) in the dialects that single APIs demand. */

type Schema = Readonly<Record<string, unknown>>

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Applies `change` to the schemas directly below one. */
function mapSubschemas(schema: Schema, change: (inner: Schema) => unknown): Schema {
  const out: Record<string, unknown> = { ...schema }
  const { properties, items, anyOf, additionalProperties } = schema
  if (isSchema(properties))
    out['properties'] = Object.fromEntries(
      Object.entries(properties).map(([name, inner]) => [name, change(inner as Schema)]),
    )
  if (isSchema(items)) out['items'] = change(items)
  if (isSchema(additionalProperties)) out['additionalProperties'] = change(additionalProperties)
  if (Array.isArray(anyOf)) out['anyOf'] = anyOf.map((inner) => change(inner as Schema))
  return out
}

/** What strict function schemas of OpenAI may contain. */
const STRICT_KEYWORDS = new Set([
  'type',
  'properties',
  'required',
  'additionalProperties',
  'description',
  'enum',
  'const',
  'items',
  'anyOf',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minItems',
  'maxItems',
  'pattern',
  'format',
])
const STRICT_FORMATS = new Set([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'uuid',
])

/** Whether a schema is valid as a strict one: every field required, no others, known keywords only. */
export function isStrictSchema(schema: Schema): boolean {
  if (Object.keys(schema).some((keyword) => !STRICT_KEYWORDS.has(keyword))) return false
  const { type, properties, required, additionalProperties, items, anyOf, format } = schema
  if (type === undefined && anyOf === undefined) return false
  if (format !== undefined && !(typeof format === 'string' && STRICT_FORMATS.has(format)))
    return false
  if (type === 'object') {
    const names = isSchema(properties) ? Object.keys(properties) : []
    const demanded = Array.isArray(required) ? required : []
    if (additionalProperties !== false || names.some((name) => !demanded.includes(name)))
      return false
  }
  const inner = [
    ...(isSchema(properties) ? Object.values(properties) : []),
    ...(isSchema(items) ? [items] : []),
    ...(Array.isArray(anyOf) ? (anyOf as unknown[]) : []),
  ]
  return inner.every((one) => isSchema(one) && isStrictSchema(one))
}

/** What a schema of Gemini may contain. */
const GEMINI_KEYWORDS = [
  'type',
  'description',
  'properties',
  'required',
  'items',
  'enum',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'minLength',
  'maxLength',
  'pattern',
]

/** The subset of OpenAPI 3.0 that Gemini takes: types everywhere, an enum of texts only, `nullable` for null. */
export function toGeminiSchema(schema: Schema): Schema {
  const { anyOf, description } = schema
  if (Array.isArray(anyOf)) return toGeminiAlternatives(anyOf as Schema[], description)
  const mapped = mapSubschemas(schema, toGeminiSchema)
  const kept: Record<string, unknown> = Object.fromEntries(
    GEMINI_KEYWORDS.filter((keyword) => mapped[keyword] !== undefined).map((keyword) => [
      keyword,
      mapped[keyword],
    ]),
  )
  // Only these formats exist for texts.
  if (mapped['format'] === 'date-time') kept['format'] = 'date-time'
  if (kept['type'] !== 'string') delete kept['enum']
  kept['type'] = typeof kept['type'] === 'string' ? kept['type'].toUpperCase() : 'STRING'
  return kept
}

/** Beside `anyOf` nothing may stand. */
function toGeminiAlternatives(anyOf: readonly Schema[], description: unknown): Schema {
  const shown = anyOf.filter(({ type }) => type !== 'null').map(toGeminiSchema)
  const isNullable = shown.length < anyOf.length
  const [first = { type: 'STRING' }, ...others] = shown.map((one) => ({
    ...one,
    ...(isNullable ? { nullable: true } : {}),
  }))
  const described = description === undefined ? first : { ...first, description }
  return others.length === 0 ? described : { anyOf: [described, ...others] }
}
