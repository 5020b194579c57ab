/** Decodes Windows-1252. */

/** Characters of Windows-1252 from 0x80, where Latin-1 has control characters. */
const FROM_80 = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ'

/** Returns the character of a code from 0x80 to 0x9f. */
export const windows1252Character = (code: number): string => FROM_80[code - 0x80] ?? ''

const CODES = Uint16Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x80 && byte < 0xa0 ? windows1252Character(byte).charCodeAt(0) : byte,
)

/**
 * Decodes Windows-1252, which some versions of Node decode as Latin-1. A table keeps the time linear, even
 * for pages of these characters only.
 */
export function decodeWindows1252(body: Uint8Array): string {
  const wide = Buffer.allocUnsafe(2 * body.length)
  for (let at = 0; at < body.length; at += 1) {
    const code = CODES[body[at] ?? 0] ?? 0
    wide[2 * at] = code & 0xff
    wide[2 * at + 1] = code >> 8
  }
  return wide.toString('utf16le')
}
