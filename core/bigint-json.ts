/**
 * JSON with exact integers: a bigint is written as `{"$n":"<digits>"}`, the form of snapshots,
 * commands and events in Postgres and Redis. What is encoded never carries objects a caller shaped,
 * so the tag cannot be forged.
 */
export const stringifyWithBigints = (value: unknown): string => JSON.stringify(value, tagBigint)

/** Reads what `encode` wrote; takes text or a value the database driver has already parsed. */
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
