import { detectPromptInjectionPhrases } from './prompt-injection-phrases.ts'
import type { PageAnomaly } from '../page-parser-port.ts'

/** Detects encoded payloads in texts. */

/** Longer than any hash or key shown to people. */
const SUSPICIOUS_BLOB_CHARS = 200
const MIN_BLOB_CHARS = 40
const MAX_BLOBS_CHECKED = 200
const MAX_BLOBS_REPORTED = 5
const MAX_BLOB_CHARS = 20_000
const BLOB = new RegExp(`[A-Za-z0-9+/_-]{${MIN_BLOB_CHARS},${MAX_BLOB_CHARS}}={0,2}`, 'g')

/** Detects base64 or hex: long ones, and short ones that decode to an instruction. */
export function* detectEncodedPayloads(text: string): Generator<PageAnomaly> {
  let [looked, found] = [0, 0]
  for (const [blob] of text.matchAll(BLOB)) {
    looked += 1
    if (looked > MAX_BLOBS_CHECKED || found === MAX_BLOBS_REPORTED) return
    const hidden = decodeBlobText(blob)
    const wanted = hidden !== null && detectPromptInjectionPhrases(hidden).length > 0
    if (!wanted && (blob.length < SUSPICIOUS_BLOB_CHARS || !hasVariedCharacters(blob))) continue
    found += 1
    const severity = wanted ? 'high' : hidden === null ? 'low' : 'medium'
    yield { type: 'encoded_blob', severity, excerpt: hidden ?? blob }
  }
}

/** Dashes and repeated letters encode nothing. */
const hasVariedCharacters = (blob: string): boolean =>
  new Set(blob.slice(0, SUSPICIOUS_BLOB_CHARS)).size >= 8

/** Decodes a blob; returns null where the result is no text. */
function decodeBlobText(blob: string): string | null {
  const hex = blob.length % 2 === 0 && /^[0-9a-f]+$/i.test(blob)
  const part = blob.slice(0, 4_000)
  const bytes = Buffer.from(part, hex ? 'hex' : 'base64')
  const text = bytes.toString('utf8')
  const odd = text.replace(/[\x20-\x7e\s]|\p{L}/gu, '').length
  return text.length >= 16 && odd <= text.length / 50 ? text : null
}
