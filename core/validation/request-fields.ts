import { readAddress } from './written-address.ts'

/** The fields of a request as clients write them: null for none (decision 400), addresses in any spelling. */

type Fields = Readonly<Record<string, unknown>>

/** The part of a JSON schema that decides whether null means something. */
interface FieldSchema {
  readonly type?: unknown
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly nullable?: unknown
  readonly format?: unknown
  readonly pattern?: unknown
  readonly properties?: Readonly<Record<string, FieldSchema>>
  readonly required?: readonly string[]
  readonly items?: unknown
  readonly anyOf?: readonly FieldSchema[]
  readonly oneOf?: readonly FieldSchema[]
  readonly allOf?: readonly FieldSchema[]
}

/**
 * What bounds a key, a Backpack, a task, a schedule or a call. Null for one of them is no absence: `JSON.stringify`
 * writes it for NaN, and without its bound the request would allow more than its sender meant.
 */
export const BOUNDS: ReadonlySet<string> = new Set([
  'budget_usdc',
  'cap_per_day_usdc',
  'cap_per_month_usdc',
  'cap_usdc',
  'expires_at',
  'expires_in_seconds',
  'expiry_days',
  'fuse',
  'grace_seconds',
  'hosts',
  'max_usdc',
  'per_call_usdc',
  'per_day_usdc',
  'per_month_usdc',
  'scopes',
  'tools',
])

/** Schemas nest about as deep as values; one that refers to itself is not followed. */
const MAX_DEPTH = 32

/** The arguments of a call: nothing, null and the empty text are no arguments. */
export const toArguments = (given: unknown): unknown =>
  given === undefined || given === null || given === '' ? {} : given

/**
 * Returns a value with its addresses in one spelling, and without its fields that are null although their schema has no null, down to nested
 * objects and lists. Keeps null for required fields, for bounds, for fields that the schema does not name, and
 * where null is a value. Returns the same object if nothing changes.
 */
export function readFields<T>(schema: unknown, value: T, depth = 0): T {
  if (depth > MAX_DEPTH) return value
  if (typeof value === 'string') return readAddress(shapesOf(schema as FieldSchema), value) as T
  if (typeof value !== 'object' || value === null) return value
  const shapes = shapesOf(schema as FieldSchema)
  if (Array.isArray(value)) return readItems(shapes, value, depth) as T
  let kept: Record<string, unknown> | null = null
  for (const [name, inner] of Object.entries(value)) {
    const naming = shapes.filter(({ properties }) => Object.hasOwn(properties ?? {}, name))
    const isAbsent = inner === null && isOptional(naming, name)
    const next = isAbsent ? null : readField(naming, name, inner, depth)
    if (next === inner && !isAbsent) continue
    kept ??= { ...(value as Fields) }
    if (isAbsent) delete kept[name]
    else kept[name] = next
  }
  return (kept ?? value) as T
}

function readItems(shapes: readonly FieldSchema[], list: unknown[], depth: number): unknown[] {
  const items = shapes.map((shape) => shape.items).find(isSchema)
  if (items === undefined) return list
  const next = list.map((entry) => readFields(items, entry, depth + 1))
  return next.some((entry, at) => entry !== list[at]) ? next : list
}

const readField = (
  naming: readonly FieldSchema[],
  name: string,
  value: unknown,
  depth: number,
): unknown =>
  naming.length === 0
    ? value
    : readFields({ anyOf: naming.map(({ properties }) => properties?.[name]) }, value, depth + 1)

function isOptional(naming: readonly FieldSchema[], name: string): boolean {
  if (naming.length === 0 || BOUNDS.has(name)) return false
  if (naming.some(({ properties }) => acceptsNull(properties?.[name]))) return false
  return naming.some(({ required }) => required?.includes(name) !== true)
}

/** The schema with its alternatives, which may each name fields. */
function shapesOf(schema: FieldSchema, depth = 0): FieldSchema[] {
  if (!isSchema(schema) || depth > MAX_DEPTH) return []
  const { anyOf = [], oneOf = [], allOf = [] } = schema
  const inner = [...anyOf, ...oneOf, ...allOf].flatMap((one) => shapesOf(one, depth + 1))
  return [schema, ...inner]
}

/** A schema that cannot be judged here counts as one with null. */
function acceptsNull(schema: FieldSchema | undefined): boolean {
  if (!isSchema(schema)) return true
  const { type, anyOf, oneOf, nullable } = schema
  if (nullable === true) return true
  if (type !== undefined) return [type].flat().includes('null')
  if ('const' in schema) return schema.const === null
  if (schema.enum !== undefined) return schema.enum.includes(null)
  const choices = anyOf ?? oneOf
  return choices === undefined || choices.some(acceptsNull)
}

const isSchema = (schema: unknown): schema is FieldSchema =>
  typeof schema === 'object' && schema !== null && !Array.isArray(schema)
