/** Judges the size of a JSON text without writing it. */

/** An escaped UTF-16 unit, `\u0000`. No unit takes more. */
const MAX_BYTES_PER_UNIT = 6
/** The longest text of a number, `-0.0000012345678901234567`. */
const MAX_NUMBER_BYTES = 25
/** Quotes, colon and comma of a member. */
const MEMBER_BYTES = 4
/** Deeper values, and cycles, are left to `JSON.stringify`. */
const MAX_DEPTH = 64

/**
 * True if `JSON.stringify(value)` has at most `limit` bytes of UTF-8; false if it may have more. Allocates nothing:
 * most answers are far below their limit and need no second text to show it.
 */
export const isJsonSizeBoundWithin = (value: unknown, limit: number): boolean =>
  subtractJsonSizeBound(value, limit, 0) >= 0

/** What is left of `budget` bytes after the value; negative if it may not suffice. */
function subtractJsonSizeBound(value: unknown, budget: number, depth: number): number {
  if (typeof value === 'string') return budget - value.length * MAX_BYTES_PER_UNIT - MEMBER_BYTES
  if (typeof value === 'bigint' || typeof value === 'function') return -1
  // An object may be a boxed number.
  let left = budget - MAX_NUMBER_BYTES - MEMBER_BYTES
  if (typeof value !== 'object' || value === null) return left
  if (depth === MAX_DEPTH || 'toJSON' in value) return -1
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length && left >= 0; at += 1)
      left = subtractJsonSizeBound(value[at], left, depth + 1)
    return left
  }
  const members = value as Readonly<Record<string, unknown>>
  for (const name in members) {
    left -= name.length * MAX_BYTES_PER_UNIT + MEMBER_BYTES
    left = subtractJsonSizeBound(members[name], left, depth + 1)
    if (left < 0) return left
  }
  return left
}
