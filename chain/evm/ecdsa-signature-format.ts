import type { HexString } from '../onchain-payment-types.ts'

/** Checks and splits the ECDSA signatures of payers. */

const KEY_SIGNATURE_BYTES = 65

/** Whether a signature has the length of a plain key's; contract signatures may have any. */
export const isEcdsaSignature = (signature: HexString): boolean =>
  signature.length === 2 + 2 * KEY_SIGNATURE_BYTES

/** Splits a key's signature; a recovery bit of 0 or 1 becomes the token's 27 or 28. */
export function splitSignature(signature: HexString): { r: HexString; s: HexString; v: number } {
  const v = Number.parseInt(signature.slice(130, 132), 16)
  return {
    r: `0x${signature.slice(2, 66)}`,
    s: `0x${signature.slice(66, 130)}`,
    v: v < 2 ? v + 27 : v,
  }
}

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/** The token's own rules: 65 bytes, v of 27 or 28, s in the lower half of the order. */
export function isCanonicalSignature(signature: HexString): boolean {
  if (!isEcdsaSignature(signature) || !/^0x[0-9a-f]+$/i.test(signature)) return false
  const { r, s, v } = splitSignature(signature)
  if (v !== 27 && v !== 28) return false
  return BigInt(r) > 0n && BigInt(r) < ORDER && BigInt(s) > 0n && BigInt(s) <= ORDER / 2n
}
