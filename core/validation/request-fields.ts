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
  readonly $ref?: unknown
}

/** The schema that a reference names; undefined for none. */
type Lookup = (reference: string) => unknown

/** Where a value stands: what its schema may refer to, and how deep it is. */
interface Place {
  readonly lookUp: Lookup
  readonly depth: number
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
 * Returns a value with its addresses in one spelling, and without its fields that are null although their schema has
 * no null, down to nested objects and lists. Keeps null for required fields, for bounds, for fields that the schema
 * does not name, and where null is a value. Follows references within the schema, and to the schemas in `shared` by
 * their `$id`. Returns the same object if nothing changes.
 */
export function readFields<T>(
  schema: unknown,
  value: T,
  shared: Readonly<Record<string, unknown>> = {},
): T {
  const lookUp: Lookup = (reference) =>
    reference.startsWith('#') ? findIn(schema, reference) : shared[reference.replace(/#$/, '')]
  return readValue(schema, value, { lookUp, depth: 0 }) as T
}

function findIn(schema: unknown, reference: string): unknown {
  const steps = reference.slice(1).split('/').slice(1)
  return steps.reduce<unknown>(
    (found, step) =>
      isSchema(found) && Object.hasOwn(found, step) ? (found as Fields)[step] : undefined,
    schema,
  )
}

function readValue(schema: unknown, value: unknown, place: Place): unknown {
  if (place.depth > MAX_DEPTH) return value
  const shapes = shapesOf(schema, place)
  if (typeof value === 'string') return readAddress(shapes, value)
  if (typeof value !== 'object' || value === null) return value
  const inner = { ...place, depth: place.depth + 1 }
  return Array.isArray(value)
    ? readItems(shapes, value, inner)
    : readObject(shapes, value as Fields, inner)
}

function readObject(shapes: readonly FieldSchema[], value: Fields, place: Place): Fields {
  let kept: Record<string, unknown> | null = null
  for (const [name, inner] of Object.entries(value)) {
    const naming = shapes.filter(({ properties }) => Object.hasOwn(properties ?? {}, name))
    const isAbsent = inner === null && isOptional(naming, name, place)
    const next = isAbsent ? null : readField(naming, name, inner, place)
    if (next === inner && !isAbsent) continue
    kept ??= { ...value }
    if (isAbsent) delete kept[name]
    else kept[name] = next
  }
  return kept ?? value
}

function readItems(shapes: readonly FieldSchema[], list: unknown[], place: Place): unknown[] {
  const items = shapes.map((shape) => shape.items).find(isSchema)
  if (items === undefined) return list
  const next = list.map((entry) => readValue(items, entry, place))
  return next.some((entry, at) => entry !== list[at]) ? next : list
}

const readField = (
  naming: readonly FieldSchema[],
  name: string,
  value: unknown,
  place: Place,
): unknown =>
  naming.length === 0
    ? value
    : readValue({ anyOf: naming.map(({ properties }) => properties?.[name]) }, value, place)

function isOptional(naming: readonly FieldSchema[], name: string, place: Place): boolean {
  if (naming.length === 0 || BOUNDS.has(name)) return false
  const isNull = ({ properties }: FieldSchema) => acceptsNull(properties?.[name], place)
  return !naming.some(isNull) && naming.some(({ required }) => required?.includes(name) !== true)
}

/** The schema with what it refers to and its alternatives, which may each name fields; each once. */
function shapesOf(schema: unknown, { lookUp }: Place): FieldSchema[] {
  const shapes = new Set<FieldSchema>()
  const open = [schema]
  for (const next of open) {
    if (!isSchema(next) || shapes.has(next)) continue
    shapes.add(next)
    const { anyOf = [], oneOf = [], allOf = [], $ref } = next
    open.push(...anyOf, ...oneOf, ...allOf, typeof $ref === 'string' ? lookUp($ref) : null)
  }
  return [...shapes]
}

/** A schema that cannot be judged here counts as one with null. */
function acceptsNull(schema: unknown, place: Place): boolean {
  if (!isSchema(schema) || place.depth > MAX_DEPTH) return true
  const { type, anyOf, oneOf, nullable, $ref } = schema
  const inner = { ...place, depth: place.depth + 1 }
  if (nullable === true) return true
  if (typeof $ref === 'string' && !acceptsNull(place.lookUp($ref), inner)) return false
  if (type !== undefined) return [type].flat().includes('null')
  if ('const' in schema) return schema.const === null
  if (schema.enum !== undefined) return schema.enum.includes(null)
  const choices = anyOf ?? oneOf
  return choices === undefined || choices.some((choice) => acceptsNull(choice, inner))
}

const isSchema = (schema: unknown): schema is FieldSchema =>
  typeof schema === 'object' && schema !== null && !Array.isArray(schema)
