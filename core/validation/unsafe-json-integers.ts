/** A text in JSON, passed over, or a number that is long enough to lose digits. */
const TOKENS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g
export const UNSAFE_INTEGER_MESSAGE =
  'is an integer that JSON numbers cannot hold exactly: send it as a string'
const LONG = /\d{16}/

/**
 * The integers of a JSON text that a double cannot hold, as what they become: `9007199254740993` would be
 * kept as `9007199254740992` without a word. Fractions are rounded by nature and are not meant.
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
