import { forEachByteMatch, type BytesWithTextPositions } from './byte-search.ts'
import {
  extractBase64Characters,
  decodeCharacterEscapes,
  extractHexDigits,
} from './decode-character-escapes.ts'

/** Redacts secrets of callers from responses. */

/** Shorter secrets match text by chance. */
const MIN_SECRET_BYTES = 8
const REDACTION_MARK = Buffer.from('[secret]')
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/
const BYTES_ONLY = /^[\0-\xff]*$/

/** Redacts secrets in text; `holds` returns whether there are any. */
export interface SecretRedactor {
  containsSecret(text: string): boolean
  redactText(text: string): string
  redactBytes(body: Buffer): Buffer
}

/**
 * Finds secrets in the encodings that a server may use: plain, percent-encoded, escaped as in JSON or HTML,
 * hexadecimal, base64 in its three alignments and both alphabets, UTF-16, reversed, and the decoded form of a
 * base64 secret. A server can always disguise a secret it received, so secrets go only to hosts listed by
 * their owner. Takes linear time for any response, since it runs on the event loop.
 */
export function createSecretRedactor(secrets: Iterable<string>): SecretRedactor {
  const needles = [...secrets]
    .filter(({ length }) => length >= MIN_SECRET_BYTES)
    .flatMap(secretByteForms)
  const clean = (body: Buffer): Buffer =>
    needles.length === 0 ? body : maskSecretBytes(body, needles)
  const redactText = (given: string): string => {
    // Header values are byte strings; a parsed URL has no characters above them.
    const encoding = BYTES_ONLY.test(given) ? 'latin1' : 'utf8'
    const body = Buffer.from(given, encoding)
    const left = clean(body)
    return left === body ? given : left.toString(encoding)
  }
  return { containsSecret: (given) => redactText(given) !== given, redactText, redactBytes: clean }
}

/** Returns the bytes of a secret: as UTF-8, as a header carries it, and decoded from base64. */
function secretByteForms(secret: string): Buffer[] {
  const [utf8, latin1] = [Buffer.from(secret, 'utf8'), Buffer.from(secret, 'latin1')]
  const decoded = BASE64.test(secret) ? Buffer.from(secret, 'base64') : Buffer.alloc(0)
  return [
    utf8,
    ...(latin1.equals(utf8) ? [] : [latin1]),
    ...(decoded.length >= MIN_SECRET_BYTES ? [decoded] : []),
  ]
}

/** Returns the body with each secret replaced by a mark; the same buffer without one. */
function maskSecretBytes(body: Buffer, needles: readonly Buffer[]): Buffer {
  const read = decodeCharacterEscapes(body)
  const [hex, base64] = [extractHexDigits(read), extractBase64Characters(read)]
  const spans = createRedactedSpans(body.length)
  for (const needle of needles) {
    const unescaped = Buffer.from(decodeCharacterEscapes(needle).bytes)
    for (const spelt of [needle, unescaped]) {
      for (const turned of [spelt, Buffer.from(spelt).reverse()]) {
        forEachByteMatch(turned, body, (start) => spans.add(start, start + turned.length))
        markEncodedMatches(spans, read, turned)
      }
    }
    markEncodedMatches(spans, hex, Buffer.from(needle.toString('hex')))
    for (const before of [0, 1, 2]) markBase64Matches(spans, base64, needle, before)
  }
  return spans.isEmpty() ? body : spans.replaced(body)
}

function markEncodedMatches(
  spans: RedactedSpans,
  { bytes, starts, ends }: BytesWithTextPositions,
  needle: Buffer,
): void {
  forEachByteMatch(needle, bytes, (start) =>
    spans.add(starts[start] ?? 0, ends[start + needle.length - 1] ?? 0),
  )
}

/**
 * Within a longer text base64 starts at one of three alignments. Its first and last characters may share bits
 * with their neighbours, so one on each side is redacted too.
 */
function markBase64Matches(
  spans: RedactedSpans,
  stream: BytesWithTextPositions,
  secret: Buffer,
  before: number,
): void {
  const { bytes, starts, ends } = stream
  const encoded = Buffer.concat([Buffer.alloc(before), secret])
    .toString('base64')
    .replace(/=+$/, '')
  const isAligned = (before + secret.length) % 3 === 0
  const certain = encoded.slice(before === 0 ? 0 : before + 1, isAligned ? undefined : -1)
  forEachByteMatch(Buffer.from(certain), bytes, (start) => {
    const last = start + certain.length - 1
    const from = before > 0 && (bytes[start - 1] ?? 0) !== 0 ? start - 1 : start
    const to = !isAligned && (bytes[last + 1] ?? 0) !== 0 ? last + 1 : last
    spans.add(starts[from] ?? 0, ends[to] ?? 0)
  })
}

type RedactedSpans = ReturnType<typeof createRedactedSpans>

/** Collects overlapping spans by their two ends, so that many cost no more than one. */
function createRedactedSpans(length: number) {
  const changes = new Int32Array(length + 1)
  let isEmpty = true
  return {
    add(start: number, end: number): void {
      changes[start] = (changes[start] ?? 0) + 1
      changes[end] = (changes[end] ?? 0) - 1
      isEmpty = false
    },
    isEmpty: () => isEmpty,
    replaced(body: Buffer): Buffer {
      const parts: Buffer[] = []
      let [depth, from] = [0, 0]
      for (let at = 0; at <= length; at += 1) {
        const before = depth
        depth += changes[at] ?? 0
        if (before === 0 && depth > 0) parts.push(body.subarray(from, at), REDACTION_MARK)
        if (before > 0 && depth === 0) from = at
      }
      return Buffer.concat([...parts, body.subarray(from)])
    },
  }
}
