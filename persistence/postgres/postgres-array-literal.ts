/**
 * Array literals of PostgreSQL (manual, section 8.15.6). A commit passes dozens per batch, and the
 * driver's serializer guesses types from the first element.
 */
export const toTextArrayLiteral = (values: readonly (string | null)[]): string =>
  `{${values.map(quote).join(',')}}`

/** For uuids, integers and booleans, which never need quotes. */
export const toUnquotedArrayLiteral = (
  values: readonly (string | number | bigint | boolean | null)[],
): string => `{${values.map((value) => (value === null ? 'NULL' : String(value))).join(',')}}`

function quote(value: string | null): string {
  if (value === null) return 'NULL'
  return `"${NEEDS_ESCAPE.test(value) ? value.replace(ESCAPED, '\\$&') : value}"`
}
const NEEDS_ESCAPE = /["\\]/
const ESCAPED = /["\\]/g
