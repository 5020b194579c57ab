/**
 * Serializes to JSON with exact integers: a bigint becomes `{"$n":"<digits>"}`. Snapshots, commands
 * and events in Postgres and Redis use this form. The values never contain objects from callers, so
 * the tag cannot be forged.
 */
export const stringifyWithBigints = (value: unknown): string => JSON.stringify(value, tagBigint)

/**
 * Parses the result of `stringifyWithBigints`. Accepts text or a value that the database driver has
 * parsed.
 */
export function parseWithBigints<T>(stored: unknown): T {
  return untag(typeof stored === 'string' ? JSON.parse(stored) : stored) as T
}

function tagBigint(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? { $n: value.toString() } : value
}

function untag(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(untag)
  const record = value as Record<string, unknown>
  if (typeof record['$n'] === 'string') return BigInt(record['$n'])
  for (const key of Object.keys(record)) record[key] = untag(record[key])
  return record
}
