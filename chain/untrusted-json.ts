import { LIMITS } from '../core/limits.ts'

/** Strict parsing of base64 and JSON from untrusted input. */

type UntrustedJsonObject = Readonly<Record<string, unknown>>

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Both alphabets; `Buffer.from` drops illegal characters silently, so check this first. */
export const BASE64_PATTERN = /^[A-Za-z0-9+/_-]+={0,2}$/
const SINGLE_ALPHABET_PATTERN = /^(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}$/
const UINT256_LIMIT = 2n ** 256n

/** A decimal string of an integer below 2^256. */
export const isUint256Text = (value: unknown): value is string =>
  typeof value === 'string' && /^\d{1,78}$/.test(value) && BigInt(value) < UINT256_LIMIT

/** Decodes strict base64 or base64url, padded or not; null for anything else. */
export function decodeStrictBase64(text: string): Buffer | null {
  const digits = text.replace(/=+$/, '').length
  if (!SINGLE_ALPHABET_PATTERN.test(text) || digits % 4 === 1) return null
  if (digits !== text.length && text.length % 4 !== 0) return null
  return Buffer.from(text, 'base64')
}

/**
 * Parses the JSON object in a header: at most 8 KiB, one base64 alphabet, valid UTF-8, no duplicate
 * key, no `__proto__`, limited depth. Null for anything else: parsers could disagree on such a
 * document.
 */
export function parseUntrustedBase64JsonHeader(text: string): UntrustedJsonObject | null {
  if (text.length > LIMITS.paymentHeaderBytes) return null
  const bytes = decodeStrictBase64(text)
  if (bytes === null) return null
  try {
    const source = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    const document: unknown = JSON.parse(source)
    const spelled = [...source.matchAll(STRINGS)].filter(([, colon]) => colon !== undefined).length
    return isRecord(document) && countKeys(document, 0) === spelled ? document : null
  } catch {
    return null
  }
}

/** A string of valid JSON, and the colon after it if it is a key. */
const STRINGS = /"(?:[^"\\]|\\.)*"(\s*:)?/g

function countKeys(value: unknown, depth: number): number {
  if (typeof value !== 'object' || value === null) return 0
  if (depth > LIMITS.jsonDepth || Object.hasOwn(value, '__proto__')) throw new Error('not allowed')
  let keys = Array.isArray(value) ? 0 : Object.keys(value).length
  for (const inner of Object.values(value)) keys += countKeys(inner, depth + 1)
  return keys
}
