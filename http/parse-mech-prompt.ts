import { invalidInputError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { assertSafeJson, findRequestFault, markJsonText } from '../core/validation/safe-json.ts'

/** Turns the prompt of a mech request into the fields of a tool. */

/** The parts of an input schema that decide what a prompt means. */
interface InputSchema {
  readonly properties?: Readonly<Record<string, unknown>>
  readonly required?: readonly string[]
}

/**
 * Returns the field that a plain prompt fills: `query`, else the only required one; null where
 * the prompt must be a JSON object. Only text fields count.
 */
export function findToolFieldForPlainPrompt(schema: unknown): string | null {
  const { properties = {}, required = [] } = schema as InputSchema
  const others = required.filter((name) => name !== 'query')
  const [name] = 'query' in properties && others.length === 0 ? ['query'] : required
  if (name === undefined || (required.length > 1 && name !== 'query')) return null
  const field = properties[name] as { readonly type?: unknown } | undefined
  return field?.type === 'string' ? name : null
}

/** Returns the fields of the tool; throws 400 for a prompt that names none. */
export function parseMechPrompt(prompt: string, schema: unknown): Record<string, unknown> {
  const fields = parseJsonObject(prompt)
  if (fields !== null) return fields
  const field = findToolFieldForPlainPrompt(schema)
  if (field === null)
    throw invalidInputError('/prompt', 'must be a JSON object with the fields of the tool')
  return { [field]: prompt }
}

function parseJsonObject(text: string): Record<string, unknown> | null {
  if (!text.trimStart().startsWith('{')) return null
  const misshapen = findRequestFault(Buffer.from(text), LIMITS.jsonValues)
  if (misshapen !== null) throw invalidInputError('/prompt', misshapen)
  let fields: Record<string, unknown>
  try {
    fields = JSON.parse(text) as Record<string, unknown>
  } catch {
    return null
  }
  // The text of a field is looked into by nobody else.
  assertSafeJson(fields, markJsonText(text))
  return fields
}
