import { createBytesWithTextPositions, type BytesWithTextPositions } from './byte-search.ts'

/** Decodes the escapes by which a text may hide a secret. */

const [PERCENT, AMPERSAND, BACKSLASH] = [0x25, 0x26, 0x5c]
const [NUMBER_SIGN, SEMICOLON] = [0x23, 0x3b]
const MAX_REFERENCE_DIGITS = 7
const NAMED = Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }).map(
  ([name, character]) => [[...Buffer.from(`${name};`)], character.charCodeAt(0)] as const,
)

/** A character written as several; `bytes` is empty where it is no single character. */
interface CharacterEscape {
  readonly bytes: readonly number[]
  readonly length: number
}

/**
 * Decodes percent-encoding (also repeated), JSON escapes (`\u0041`, `\x41`, `\/`), HTML character references,
 * and zero bytes between characters as in UTF-16.
 */
export function decodeCharacterEscapes(text: Uint8Array): BytesWithTextPositions {
  const stream = createBytesWithTextPositions(text.length)
  for (let at = 0; at < text.length;) {
    const byte = text[at] ?? 0
    const escape = escapeAt(text, at, byte)
    if (escape !== null) {
      for (const one of escape.bytes) stream.push(one, at, at + escape.length)
      at += escape.length
      continue
    }
    if (byte !== 0) stream.push(byte, at, at + 1)
    at += 1
  }
  return stream.end()
}

function escapeAt(text: Uint8Array, at: number, byte: number): CharacterEscape | null {
  if (byte === PERCENT) return percentAt(text, at)
  if (byte === BACKSLASH) return backslashAt(text, at)
  return byte === AMPERSAND ? referenceAt(text, at) : null
}

/** Decodes `%41`, and `%2541` or `%252541` where it was encoded repeatedly. */
function percentAt(text: Uint8Array, at: number): CharacterEscape | null {
  let digits = at + 1
  while (hexAt(text, digits, 2) === PERCENT && hexAt(text, digits + 2, 2) !== null) digits += 2
  const value = hexAt(text, digits, 2)
  return value === null ? null : { bytes: [value], length: digits + 2 - at }
}

function backslashAt(text: Uint8Array, at: number): CharacterEscape | null {
  const kind = text[at + 1] ?? 0
  const digits = kind === 0x75 ? 4 : kind === 0x78 ? 2 : 0
  const value = digits === 0 ? null : hexAt(text, at + 2, digits)
  if (value !== null) return { bytes: utf8Of(value), length: 2 + digits }
  const isMark = kind > 0x20 && kind < 0x7f && !isAlphanumeric(kind)
  return isMark ? { bytes: [kind], length: 2 } : null
}

/** Decodes `&#65;`, `&#x41;` and `&amp;`. */
function referenceAt(text: Uint8Array, at: number): CharacterEscape | null {
  if (text[at + 1] !== NUMBER_SIGN) return namedAt(text, at)
  const isHex = ((text[at + 2] ?? 0) | 0x20) === 0x78
  const first = at + (isHex ? 3 : 2)
  let [code, next] = [0, first]
  for (; next < first + MAX_REFERENCE_DIGITS; next += 1) {
    const digit = digitOf(text[next] ?? 0)
    if (digit === null || (!isHex && digit > 9)) break
    code = code * (isHex ? 16 : 10) + digit
  }
  if (next === first || text[next] !== SEMICOLON) return null
  return { bytes: utf8Of(code), length: next + 1 - at }
}

function namedAt(text: Uint8Array, at: number): CharacterEscape | null {
  const found = NAMED.find(([name]) => name.every((byte, n) => text[at + 1 + n] === byte))
  return found === undefined ? null : { bytes: [found[1]], length: found[0].length + 1 }
}

/** Lone surrogates and code points beyond Unicode occur in no secret. */
const utf8Of = (code: number): readonly number[] =>
  code < 0x80 ? [code] : code > 0x10ffff ? [] : [...Buffer.from(String.fromCodePoint(code))]

/** Returns the value of a number of hexadecimal digits at a position; null for other characters. */
function hexAt(text: Uint8Array, at: number, digits: number): number | null {
  let value = 0
  for (let next = at; next < at + digits; next += 1) {
    const digit = digitOf(text[next] ?? 0)
    if (digit === null) return null
    value = value * 16 + digit
  }
  return value
}

function digitOf(byte: number): number | null {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : null
}

const isAlphanumeric = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a)

const isBlank = (byte: number): boolean => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)

/** Separators between hexadecimal bytes: a blank, `:`, `,` or `-`. */
const isSeparator = (byte: number): boolean =>
  isBlank(byte) || byte === 0x3a || byte === 0x2c || byte === 0x2d

/** Replaces anything that is no part of an encoding. */
const BREAK = 0

/** Returns the hexadecimal digits of a text in lower case, without separators and prefixes (`0x`). */
export function extractHexDigits({
  bytes,
  starts,
  ends,
}: BytesWithTextPositions): BytesWithTextPositions {
  const stream = createBytesWithTextPositions(bytes.length)
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === 0x30 && ((bytes[at + 1] ?? 0) | 0x20) === 0x78) at += 1
    else if (digitOf(byte) !== null)
      stream.push(byte >= 0x41 ? byte | 0x20 : byte, starts[at] ?? 0, ends[at] ?? 0)
    else if (!isSeparator(byte) && stream.last() !== BREAK)
      stream.push(BREAK, starts[at] ?? 0, ends[at] ?? 0)
  }
  return stream.end()
}

/**
 * Returns the base64 characters of a text across line ends, with both alphabets mapped to the one with `+`
 * and `/`.
 */
export function extractBase64Characters({
  bytes,
  starts,
  ends,
}: BytesWithTextPositions): BytesWithTextPositions {
  const stream = createBytesWithTextPositions(bytes.length)
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0
    const character = byte === 0x2d ? 0x2b : byte === 0x5f ? 0x2f : byte
    const isPart = isAlphanumeric(character) || character === 0x2b || character === 0x2f
    if (isPart) stream.push(character, starts[at] ?? 0, ends[at] ?? 0)
    else if (!isBlank(byte) && stream.last() !== BREAK)
      stream.push(BREAK, starts[at] ?? 0, ends[at] ?? 0)
  }
  return stream.end()
}
