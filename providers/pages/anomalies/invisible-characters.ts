import type { PageAnomaly } from '../page-parser-port.ts'

/** Detects characters that are invisible or reverse text. */

const FIRST_TAG_CHARACTER = 0xe0000
const MAX_TAG_RUNS = 5
const MIN_SUSPICIOUS_RUN = 4

/** Detects characters that are invisible or change the direction of text. */
export function* detectInvisibleCharacters(text: string): Generator<PageAnomaly> {
  yield* detectTagCharacters(text)
  yield* detectZeroWidthCharacters(text)
  yield* detectBidiOverrides(text)
}

/** Detects Unicode tag characters, which are invisible; some regional flags use them legitimately. */
function* detectTagCharacters(text: string): Generator<PageAnomaly> {
  let count = 0
  for (const { 0: run, index } of text.matchAll(/[\u{e0000}-\u{e007f}]+/gu)) {
    const hidden = Array.from(run, (one) =>
      String.fromCharCode((one.codePointAt(0) ?? FIRST_TAG_CHARACTER) - FIRST_TAG_CHARACTER),
    )
      .join('')
      .replace(/[^\x20-\x7e]/g, '')
    const flag = text.slice(index - 2, index) === '\u{1f3f4}' && hidden.length <= 6
    if (flag || count === MAX_TAG_RUNS) continue
    count += 1
    yield { type: 'tag_characters', severity: 'high', excerpt: hidden }
  }
}

/**
 * Detects zero-width characters in or between Latin words, runs of them anywhere, and stray variation
 * selectors.
 */
function* detectZeroWidthCharacters(text: string): Generator<PageAnomaly> {
  const ZERO =
    /(?<=[A-Za-z0-9])(?:(?![\u00ad\u{e0000}-\u{e007f}\u202a-\u202e\u2066-\u2069])\p{Default_Ignorable_Code_Point})+(?=[A-Za-z0-9])|[\u200b-\u200d\u2060-\u2064\ufeff\u180e]{4,}|[\ufe00-\ufe0f]{2,}|[\u{e0100}-\u{e01ef}]{2,}/gu
  let [runs, longest] = [0, 0]
  let first: string | null = null
  for (const { 0: run, index } of text.matchAll(ZERO)) {
    runs += 1
    longest = Math.max(longest, Array.from(run).length)
    first ??= text.slice(Math.max(0, index - 40), index + run.length + 40)
  }
  if (first === null) return
  const severity = longest >= MIN_SUSPICIOUS_RUN ? 'high' : runs > MAX_TAG_RUNS ? 'medium' : 'low'
  yield { type: 'invisible_characters', severity, excerpt: first }
}

function* detectBidiOverrides(text: string): Generator<PageAnomaly> {
  const forced = /[\u202d\u202e]/.exec(text)
  // Embeddings and isolates are normal in bidirectional text.
  const odd = /[\u0590-\u08ff]/.test(text) ? null : /[\u202a-\u202c\u2066-\u2069]/.exec(text)
  const found = forced ?? odd
  if (found === null) return
  const excerpt = text.slice(Math.max(0, found.index - 40), found.index + 60)
  yield { type: 'bidi_override', severity: forced === null ? 'low' : 'high', excerpt }
}

const CHARACTERS_TO_ESCAPE = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\u2800]/gu

/** Returns a visible one-line excerpt of at most `maxChars` characters. */
export function escapeInvisibleCharacters(text: string, maxChars: number): string {
  const line = text
    .slice(0, 4 * maxChars)
    .replace(/\s+/g, ' ')
    .replace(CHARACTERS_TO_ESCAPE, (one) => `\\u{${(one.codePointAt(0) ?? 0).toString(16)}}`)
    .trim()
  return line.length <= maxChars ? line : `${line.slice(0, maxChars - 1)}…`
}
