/**
 * The pattern of a text field that has to say something: white space alone is refused, before anything
 * is charged. Blank ends and blanks inside are fine.
 */
export const SAID = '\\S'

/** An address on a chain of the EVM. */
export const EVM_ADDRESS = '^0x[0-9a-fA-F]{40}$'
export const MAIL_ADDRESS =
  "^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z]{2,63}$"

const PATTERNS: ReadonlyMap<unknown, string> = new Map([
  [SAID, 'must not be blank'],
  [EVM_ADDRESS, 'must be an address: 0x and 40 hex digits'],
  [MAIL_ADDRESS, 'must be an e-mail address'],
])
const FORMATS: ReadonlyMap<unknown, string> = new Map([
  ['uri', 'must be a whole address, such as https://example.com/'],
  ['uuid', 'must be a UUID'],
  ['email', 'must be an e-mail address'],
  ['date-time', 'must be an instant, such as 2026-11-21T10:00:00Z'],
])

/** What is told of a text that does not fit a pattern or a format, in plain words; null for another. */
export function unsaid(keyword: string, params: object): string | null {
  const { pattern, format } = params as { pattern?: unknown; format?: unknown }
  if (keyword === 'pattern') return PATTERNS.get(pattern) ?? null
  return keyword === 'format' ? (FORMATS.get(format) ?? null) : null
}
