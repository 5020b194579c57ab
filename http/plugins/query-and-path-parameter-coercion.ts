/** Converts text of query, path and header parameters to the types of their schema. */

/** The part of a parameter schema that decides the conversion. */
interface ParameterSchema {
  readonly type?: string
  readonly items?: ParameterSchema
  readonly properties?: Readonly<Record<string, ParameterSchema>>
}

const INTEGER_TEXT = /^(0|-?[1-9]\d{0,15})$/
const DECIMAL_TEXT = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/**
 * Replaces text by the numbers and booleans that `schema` expects, in place. Accepts finite decimal notation
 * only; other text stays text, so that the schema refuses it: `Infinity`, `1e309`, `0x10`, ` 1`, `-0` and the
 * empty text.
 */
export function coerceParameters(schema: ParameterSchema, values: unknown): void {
  if (typeof values !== 'object' || values === null) return
  const texts = values as Record<string, unknown>
  for (const [name, parameter] of Object.entries(schema.properties ?? {}))
    if (texts[name] !== undefined) texts[name] = coerceValue(parameter, texts[name])
}

function coerceValue({ type, items }: ParameterSchema, given: unknown): unknown {
  if (type === 'array') {
    const entries: unknown[] = Array.isArray(given) ? given : [given]
    return entries.map((entry) => coerceValue(items ?? {}, entry))
  }
  if (typeof given !== 'string') return given
  if (type === 'integer') return INTEGER_TEXT.test(given) ? Number(given) : given
  if (type === 'number') return parseDecimal(given)
  if (type === 'boolean') return given === 'true' || (given === 'false' ? false : given)
  return given
}

function parseDecimal(text: string): number | string {
  const value = DECIMAL_TEXT.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(value) && !Object.is(value, -0) ? value : text
}
