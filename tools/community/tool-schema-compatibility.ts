import { invalidInputError } from '../../core/errors.ts'
import type { CommunityToolDefinition } from '../../domain/community-tool-record.ts'
import type { ToolJsonSchema } from './untrusted-json-schema-check.ts'

/**
 * Whether a changed schema keeps the promises of the one before. Callers have stored inputs (schedules, plans)
 * and read answers, so an input may only allow more and an answer may only promise more. What is not surely
 * compatible is refused: it needs a tool of another name.
 */

/** Keywords that say nothing about what is valid. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  ...['title', 'description', '$comment', 'examples', 'default', 'deprecated', '$schema'],
])

/** Throws `invalid_input` for an incompatible schema. */
export function assertToolSchemasBackwardCompatible(
  before: CommunityToolDefinition,
  after: CommunityToolDefinition,
): void {
  const input = findBreak(before.inputSchema, after.inputSchema, '/input_schema', 'input')
  const output = findBreak(before.outputSchema, after.outputSchema, '/output_schema', 'output')
  const found = input ?? output
  if (found !== null)
    throw invalidInputError(
      found.pointer,
      `${found.why}: register a tool with another slug for an incompatible change`,
    )
}

interface SchemaBreak {
  readonly pointer: string
  readonly why: string
}

const isObject = (value: unknown): value is ToolJsonSchema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const namesOf = (list: unknown): readonly string[] =>
  Array.isArray(list) ? (list as string[]) : []

/** New optional fields are compatible; everything else must be the same, but for annotations. */
function findBreak(
  before: unknown,
  after: unknown,
  pointer: string,
  side: 'input' | 'output',
): SchemaBreak | null {
  if (!isObject(before) || !isObject(after))
    return sameMeaning(before, after) ? null : { pointer, why: 'says something else than before' }
  const { properties: oldFields = {}, required: oldRequired, ...oldRest } = before
  const { properties: newFields = {}, required: newRequired, ...newRest } = after
  if (!sameMeaning(oldRest, newRest)) return { pointer, why: 'says something else than before' }
  const [strong, weak] = side === 'input' ? [newRequired, oldRequired] : [oldRequired, newRequired]
  const demanded = namesOf(strong).find((name) => !namesOf(weak).includes(name))
  if (demanded !== undefined)
    return {
      pointer: `${pointer}/required`,
      why:
        side === 'input'
          ? `demands ${demanded}, which was not required before`
          : `does not promise ${demanded} any more`,
    }
  if (!isObject(oldFields) || !isObject(newFields))
    return { pointer: `${pointer}/properties`, why: 'must be an object' }
  for (const [name, field] of Object.entries(oldFields)) {
    const at = `${pointer}/properties/${name}`
    if (!Object.hasOwn(newFields, name)) return { pointer: at, why: 'is gone' }
    const found = findBreak(field, newFields[name], at, side)
    if (found !== null) return found
  }
  // A field that was open before may hold anything in stored inputs.
  const isOpen = before['additionalProperties'] !== false
  const added = Object.keys(newFields).find((name) => !Object.hasOwn(oldFields, name))
  return side === 'input' &&
    isOpen &&
    added !== undefined &&
    before['additionalProperties'] === true
    ? { pointer: `${pointer}/properties/${added}`, why: 'restricts a field that could be anything' }
    : null
}

function sameMeaning(one: unknown, other: unknown): boolean {
  if (Array.isArray(one) || Array.isArray(other))
    return (
      Array.isArray(one) &&
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((inner, at) => sameMeaning(inner, other[at]))
    )
  if (!isObject(one) || !isObject(other)) return one === other
  const names = new Set([...Object.keys(one), ...Object.keys(other)])
  return [...names].every((name) => ANNOTATIONS.has(name) || sameMeaning(one[name], other[name]))
}
