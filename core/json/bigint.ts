/**
 * Serializes to JSON with exact integers: a bigint becomes `{"$n":"<digits>"}`. Snapshots, commands
 * and events in Postgres and Redis use this form. The values never contain objects from callers, so
 * the tag cannot be forged. Equal to `JSON.stringify` with a replacer, which takes four times as long.
 */
export const stringifyWithBigints = (value: unknown): string => toJson(value) ?? 'null'

/**
 * Parses the result of `stringifyWithBigints`. Accepts text or a value that the database driver has
 * parsed.
 */
export function parseWithBigints<T>(stored: unknown): T {
  return untag(typeof stored === 'string' ? JSON.parse(stored) : stored) as T
}

/** Undefined for what JSON leaves out. */
function toJson(value: unknown): string | undefined {
  switch (typeof value) {
    case 'bigint':
      return `{"$n":"${value}"}`
    case 'object':
      return value === null ? 'null' : objectToJson(value as JsonObject)
    case 'number':
      return Number.isFinite(value) ? String(value) : 'null'
    case 'boolean':
      return value ? 'true' : 'false'
    default:
      return JSON.stringify(value)
  }
}

interface JsonObject {
  readonly [name: string]: unknown
  readonly toJSON?: unknown
}

function objectToJson(value: JsonObject): string | undefined {
  if (typeof value.toJSON === 'function') return toJson((value as unknown as Date).toJSON())
  let text = ''
  if (Array.isArray(value)) {
    for (const item of value) text += `${text === '' ? '' : ','}${toJson(item) ?? 'null'}`
    return `[${text}]`
  }
  for (const name of Object.keys(value)) {
    const member = toJson(value[name])
    if (member === undefined) continue
    const quoted = PLAIN_NAME.test(name) ? `"${name}"` : JSON.stringify(name)
    text += text === '' ? `${quoted}:${member}` : `,${quoted}:${member}`
  }
  return `{${text}}`
}

/** Names that JSON does not escape: those of contexts, and ids. */
const PLAIN_NAME = /^[\w:.-]*$/

function untag(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(untag)
  const record = value as Record<string, unknown>
  if (typeof record['$n'] === 'string') return BigInt(record['$n'])
  for (const key of Object.keys(record)) record[key] = untag(record[key])
  return record
}
