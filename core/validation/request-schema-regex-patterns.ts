/** Regular expressions of request schemas, and their descriptions for error messages. */

/** White space, control and invisible characters: zero-width, fillers, Braille blank. */
const INVISIBLE_CHARS = '\\s\\p{Cc}\\p{Cf}\\p{Default_Ignorable_Code_Point}\\u2800'
/** Pattern of text with at least one visible character. */
export const NOT_BLANK_PATTERN = `[^${INVISIBLE_CHARS}]`
/**
 * Pattern of names, titles and memos: one visible line. Rejects control characters, line breaks and
 * direction overrides, because names appear next to other text.
 */
export const SINGLE_LINE_TEXT_PATTERN = `^(?=[^]*[^${INVISIBLE_CHARS}])[^\\p{Cc}\\u2028-\\u202E\\u2066-\\u2069]+$`
/** Pattern of text with at least one letter or digit. */
export const LETTER_OR_DIGIT_PATTERN = '(?!\\p{Default_Ignorable_Code_Point})[\\p{L}\\p{N}]'

/** An EVM address. */
export const EVM_ADDRESS_PATTERN = '^0x[0-9a-fA-F]{40}$'
/** An EVM transaction hash. */
export const EVM_TX_HASH_PATTERN = '^0x[0-9a-fA-F]{64}$'
export const EMAIL_PATTERN =
  "^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z]{2,63}$"

const NAMESPACE_DESCRIPTION =
  '1 to 64 letters, digits, colons, underscores, dots or dashes, and begin with a letter or a digit'

/** Descriptions by pattern. */
const PATTERN_DESCRIPTIONS: ReadonlyMap<unknown, string> = new Map([
  [EVM_ADDRESS_PATTERN, 'an address: 0x and 40 hex digits'],
  [EVM_TX_HASH_PATTERN, 'the hash of a transaction: 0x and 64 hex digits'],
  [EMAIL_PATTERN, 'an e-mail address'],
  ['^[A-Za-z0-9_-]{1,64}$', '1 to 64 letters, digits, dashes or underscores'],
  ['^[A-Za-z0-9:_-]{1,64}$', '1 to 64 letters, digits, colons, dashes or underscores'],
  [
    '^[a-z0-9][a-z0-9-]{2,47}$',
    '3 to 48 lower-case letters, digits or dashes, and begin with a letter or a digit',
  ],
  ['^[A-Za-z0-9-]{1,64}$', '1 to 64 letters, digits or dashes'],
  [
    '^[\\x21-\\x7e]([\\x20-\\x7e]*[\\x21-\\x7e])?$',
    'visible ASCII characters, with blanks between them only',
  ],
  ['^[A-Za-z0-9_-]+$', 'letters, digits, dashes and underscores'],
  ['^[A-Za-z0-9][A-Za-z0-9:_.-]{0,63}$', NAMESPACE_DESCRIPTION],
  [
    '^[A-Za-z_][A-Za-z0-9_]{0,63}$',
    '1 to 64 letters, digits or underscores, and begin with no digit',
  ],
  ['^[\\x21-\\x7e]{1,64}$', '1 to 64 visible ASCII characters'],
  ['^-?[0-9]{1,20}$', 'the number of a chat: at most 20 digits'],
  ['^[0-9]{1,78}$', 'a whole number in decimal digits, at most 78'],
  ['^\\d{1,18}$', 'a whole number in decimal digits, at most 18'],
  ['^(0|[1-9][0-9]{0,17})$', 'a cursor: a whole number in decimal digits, at most 18'],
  ['^0x([0-9a-fA-F]{2})*$', 'bytes in hex: 0x and pairs of hex digits'],
  ['^0x([0-9a-fA-F]{2})+$', 'bytes in hex: 0x and pairs of hex digits'],
  ['^stl_[0-9a-f]{32}$', 'the id of a settlement: stl_ and 32 hex digits'],
  ['^https?://', 'an http or https address'],
  [
    '^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?(:[0-9]{1,5})?$',
    'a host name in lower case, with a port or without',
  ],
  [
    '^\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,9})?)?(Z|[+-]\\d{2}:\\d{2}))?$',
    'a day or an instant with its zone, such as 2026-11-21 or 2026-11-21T10:00:00Z',
  ],
])
const FORMAT_DESCRIPTIONS: ReadonlyMap<unknown, string> = new Map([
  ['uri', 'a whole address, such as https://example.com/'],
  ['uuid', 'a UUID'],
  ['email', 'an e-mail address'],
  ['date-time', 'an instant, such as 2026-11-21T10:00:00Z'],
])
/** Error messages for patterns whose description does not say what is wrong. */
const PATTERN_ERRORS: ReadonlyMap<unknown, string> = new Map([
  [NOT_BLANK_PATTERN, 'must not be blank'],
  [
    SINGLE_LINE_TEXT_PATTERN,
    'must not be blank, and must be one line without control or direction-override characters',
  ],
  ['^[^\\u0000]+$', 'must not be empty or have NUL'],
  [LETTER_OR_DIGIT_PATTERN, 'must have a letter or a digit'],
])

/** Describes a pattern or format in words. Returns null without a description. */
export function describePattern(pattern: unknown, format: unknown): string | null {
  return PATTERN_DESCRIPTIONS.get(pattern) ?? FORMAT_DESCRIPTIONS.get(format) ?? null
}

/**
 * The error for text that does not match a pattern or format. Returns null without a description.
 */
export function patternErrorMessage(pattern: unknown, format: unknown): string | null {
  const description = describePattern(pattern, format)
  return PATTERN_ERRORS.get(pattern) ?? (description === null ? null : `must be ${description}`)
}
