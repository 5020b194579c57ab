/** Finds integers in JSON text that lose precision as a double. */

/** A JSON string, to skip it, or a number long enough to lose digits. */
const TOKENS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g
export const UNSAFE_INTEGER_MESSAGE =
  'is an integer that JSON numbers cannot hold exactly: send it as a string where the field takes text'
const LONG = /\d{16}/

/**
 * Finds integers that a double cannot hold and returns what they become: `9007199254740993` would
 * silently become `9007199254740992`. Ignores fractions.
 */
export function findUnsafeIntegers(json: string): ReadonlySet<number> {
  const lost = new Set<number>()
  if (!LONG.test(json)) return lost
  for (const [token] of json.matchAll(TOKENS)) {
    if (token.startsWith('"')) continue
    const read = Number(token)
    if (!Number.isFinite(read) || BigInt(read) !== BigInt(token)) lost.add(read)
  }
  return lost
}
