import type { HexString } from '../payment.ts'

/**
 * The encoding of contract calls whose arguments are of one word each, by hand: for each call of a
 * payment a general encoder would look up the function, hash its signature and check every argument.
 */
const DIGITS = 64

/** A number as 32 bytes, without a prefix. */
export const encodeUintWord = (value: bigint | number): string =>
  value.toString(16).padStart(DIGITS, '0')

/** An address, or up to 32 bytes that a contract reads as a number, as 32 bytes. */
export const encodeHexWord = (hex: string): string =>
  hex.slice(2).toLowerCase().padStart(DIGITS, '0')

/** Bytes filled up to whole words behind their length, without a prefix. */
export function encodeBytesWords(bytes: HexString): string {
  const digits = bytes.slice(2)
  const length = Math.ceil(digits.length / DIGITS) * DIGITS
  return encodeUintWord(digits.length / 2) + digits.padEnd(length, '0')
}

/** A call by the selector of its function. */
export const encodeCallData = (selector: HexString, ...words: string[]): HexString =>
  `${selector}${words.join('')}`
