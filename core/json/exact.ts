import { randomBytes } from 'node:crypto'

/**
 * JSON of others with all its digits: integers beyond 2^53 are bigints in memory and numerals in text (decision 414).
 * Everything else is as `JSON` has it.
 */

/** A JSON string, to skip it, or an integer that may be unsafe. The text must be valid JSON. */
const TOKENS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g
const LONG = /\d{16}/
/** Nobody else can write it: it never leaves the process. */
const TAG = randomBytes(16).toString('hex')
const TAGGED = new RegExp(`"${TAG}(-?\\d+)"`, 'g')

/** Parses JSON. Numbers beyond a double (`1e400`, integers of 309 digits) become `Infinity`, as `JSON.parse` has it. */
export function parseExactJson(text: string): unknown {
  const plain: unknown = JSON.parse(text)
  if (!LONG.test(text)) return plain
  const tagged = text.replace(TOKENS, (token) => {
    if (token.startsWith('"')) return token
    const read = Number(token)
    return Number.isSafeInteger(read) || !Number.isFinite(read) ? token : `{"${TAG}":"${token}"}`
  })
  return tagged.length === text.length ? plain : untag(JSON.parse(tagged))
}

/** Makes a writer of JSON write bigints as numerals: those in parts that it leaves to `JSON.stringify`. */
export const withExactIntegers =
  (write: (value: unknown) => string) =>
  (value: unknown): string => {
    try {
      return write(value)
    } catch (error) {
      // A bigint; what else is wrong throws again.
      if (!(error instanceof TypeError)) throw error
      return write(tagBigints(value)).replace(TAGGED, '$1')
    }
  }

/** The text of `JSON.stringify`, with bigints as numerals. */
export const toExactJson = withExactIntegers((value) => JSON.stringify(value))

const tagBigints = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (_name, inner: unknown) =>
      typeof inner === 'bigint' ? `${TAG}${inner}` : inner,
    ),
  )

/** Without recursion: the depth is a stranger's. */
function untag(value: unknown): unknown {
  const root: Record<string, unknown> = { value }
  const open: Record<string, unknown>[] = [root]
  for (let holder = open.pop(); holder !== undefined; holder = open.pop())
    for (const [name, inner] of Object.entries(holder)) {
      if (typeof inner !== 'object' || inner === null) continue
      const fields = inner as Record<string, unknown>
      const digits = fields[TAG]
      if (typeof digits === 'string') holder[name] = BigInt(digits)
      else open.push(fields)
    }
  return root['value']
}
