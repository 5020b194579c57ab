import type { HexString } from '../onchain-payment-types.ts'

/**
 * Encodes contract calls whose arguments are single words. A general ABI encoder would look up the
 * function, hash its signature and check every argument for each payment.
 */

/** Hexadecimal digits of a word. */
const DIGITS = 64

/** A number as 32 bytes, without a prefix. */
export const encodeUintWord = (value: bigint | number): string =>
  value.toString(16).padStart(DIGITS, '0')

/** An address, or up to 32 bytes that a contract reads as a number, as 32 bytes. */
export const encodeHexStringAsAbiWord = (hex: string): string =>
  hex.slice(2).toLowerCase().padStart(DIGITS, '0')

/** Bytes padded to whole words after their length, without a prefix. */
export function encodeBytesWords(bytes: HexString): string {
  const digits = bytes.slice(2)
  const length = Math.ceil(digits.length / DIGITS) * DIGITS
  return encodeUintWord(digits.length / 2) + digits.padEnd(length, '0')
}

/** The call data of a function by its selector. */
export const encodeCallData = (selector: HexString, ...words: string[]): HexString =>
  `${selector}${words.join('')}`
