/**
 * Array literals of PostgreSQL (manual, section 8.15.6). Written here because the commit passes
 * dozens of them per batch and the driver's own serializer guesses types by the first element.
 */
export const toTextArrayLiteral = (values: readonly (string | null)[]): string =>
  `{${values.map(quote).join(',')}}`

/** For uuids, integers and booleans, whose spelling never needs quotes. */
export const toUnquotedArrayLiteral = (
  values: readonly (string | number | bigint | boolean | null)[],
): string => `{${values.map((value) => (value === null ? 'NULL' : String(value))).join(',')}}`

function quote(value: string | null): string {
  if (value === null) return 'NULL'
  return `"${NEEDS_ESCAPE.test(value) ? value.replace(ESCAPED, '\\$&') : value}"`
}
const NEEDS_ESCAPE = /["\\]/
const ESCAPED = /["\\]/g
