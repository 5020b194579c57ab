/** Bytes decoded from a text, with the position of each in that text. */
export interface BytesWithTextPositions {
  readonly bytes: Uint8Array
  /** Start and end of each byte's spelling in the text. */
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

/** Creates a byte buffer with offsets; it never grows beyond `capacity`. */
export function createBytesWithTextPositions(capacity: number) {
  const [bytes, starts, ends] = [
    new Uint8Array(capacity),
    new Uint32Array(capacity),
    new Uint32Array(capacity),
  ]
  let length = 0
  return {
    push(byte: number, start: number, end: number): void {
      bytes[length] = byte
      starts[length] = start
      ends[length] = end
      length += 1
    },
    last: (): number => (length === 0 ? 0 : (bytes[length - 1] ?? 0)),
    end: (): BytesWithTextPositions => ({
      bytes: bytes.subarray(0, length),
      starts: starts.subarray(0, length),
      ends: ends.subarray(0, length),
    }),
  }
}

/** Length of the prefix that native search looks for first, since most texts contain no part of a needle. */
const PROBE_BYTES = 8

/**
 * Calls `found` with the start of every match of `needle` in `text`, including overlapping ones. Linear time
 * for any input (Knuth, Morris and Pratt, 1977), since the text is untrusted.
 */
export function forEachByteMatch(
  needle: Uint8Array,
  text: Uint8Array,
  found: (start: number) => void,
): void {
  const probe = needle.subarray(0, PROBE_BYTES)
  const begin = Buffer.from(text.buffer, text.byteOffset, text.length).indexOf(probe)
  if (needle.length === 0 || begin === -1) return
  const borders = kmpBorders(needle)
  let matched = 0
  for (let at = begin; at < text.length; at += 1) {
    while (matched > 0 && text[at] !== needle[matched]) matched = borders[matched - 1] ?? 0
    if (text[at] === needle[matched]) matched += 1
    if (matched < needle.length) continue
    found(at - needle.length + 1)
    matched = borders[matched - 1] ?? 0
  }
}

/** Returns, for each prefix of a needle, the length of its longest border. */
function kmpBorders(needle: Uint8Array): Uint32Array {
  const borders = new Uint32Array(needle.length)
  let border = 0
  for (let at = 1; at < needle.length; at += 1) {
    while (border > 0 && needle[at] !== needle[border]) border = borders[border - 1] ?? 0
    if (needle[at] === needle[border]) border += 1
    borders[at] = border
  }
  return borders
}
