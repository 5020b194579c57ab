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

/** A column of rows as a literal of texts, without arrays in between. */
export function toTextColumnArrayLiteral<T>(
  rows: readonly T[],
  get: (row: T) => string | null,
): string {
  let text = '{'
  for (let at = 0; at < rows.length; at++)
    text += `${at === 0 ? '' : ','}${quote(get(rows[at] as T))}`
  return `${text}}`
}

/** The same for uuids, integers, booleans and names that the code gives. */
export function toUnquotedColumnArrayLiteral<T>(
  rows: readonly T[],
  get: (row: T) => string | number | bigint | boolean | null,
): string {
  let text = '{'
  for (let at = 0; at < rows.length; at++)
    text += `${at === 0 ? '' : ','}${get(rows[at] as T) ?? 'NULL'}`
  return `${text}}`
}

const SEPARATOR = '\x1f'

/** A column of JSON, which has no control characters: `string_to_array(column, E'\x1f')` is its array. */
export function toUnitSeparatedJsonColumn<T>(rows: readonly T[], get: (row: T) => string): string {
  let text = ''
  for (let at = 0; at < rows.length; at++)
    text += at === 0 ? get(rows[at] as T) : SEPARATOR + get(rows[at] as T)
  return text
}

function quote(value: string | null): string {
  if (value === null) return 'NULL'
  return `"${NEEDS_ESCAPE.test(value) ? value.replace(ESCAPED, '\\$&') : value}"`
}
const NEEDS_ESCAPE = /["\\]/
const ESCAPED = /["\\]/g
