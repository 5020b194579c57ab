/** Bytes that were read out of a text, and where each of them stands in it. */
export interface BytesWithOffsets {
  readonly bytes: Uint8Array
  /** Where the spelling of a byte begins in the text, and where it ends. */
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

/** A stream that is written byte by byte; it never grows beyond `capacity`. */
export function createOffsetByteWriter(capacity: number) {
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
    end: (): BytesWithOffsets => ({
      bytes: bytes.subarray(0, length),
      starts: starts.subarray(0, length),
      ends: ends.subarray(0, length),
    }),
  }
}

/** What is looked for first by the platform's own search: most texts hold no part of a needle. */
const PROBE_BYTES = 8

/**
 * Calls `found` with the start of each place where `needle` stands in `text`, overlapping ones too.
 * Linear in both, whatever they are (Knuth, Morris and Pratt, 1977): the text is a stranger's.
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

/** For each beginning of a needle: how long the longest beginning of the needle is that ends it as well. */
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
