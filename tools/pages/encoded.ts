import { phrasesIn } from './phrases.ts'
import type { Anomaly } from './port.ts'

/** Longer than any hash or key that is shown to people. */
const LONG = 200
const SHORT = 40
const MOST_LOOKED_AT = 200
const MOST_FOUND = 5
const LONGEST = 20_000
const BLOB = new RegExp(`[A-Za-z0-9+/_-]{${SHORT},${LONGEST}}={0,2}`, 'g')

/** Text in base64 or hex: long, or short with something in it that is meant for machines. */
export function* encodedAnomalies(text: string): Generator<Anomaly> {
  let [looked, found] = [0, 0]
  for (const [blob] of text.matchAll(BLOB)) {
    looked += 1
    if (looked > MOST_LOOKED_AT || found === MOST_FOUND) return
    const hidden = decoded(blob)
    const wanted = hidden !== null && phrasesIn(hidden).length > 0
    if (!wanted && (blob.length < LONG || !varied(blob))) continue
    found += 1
    const severity = wanted ? 'high' : hidden === null ? 'low' : 'medium'
    yield { type: 'encoded_blob', severity, excerpt: hidden ?? blob }
  }
}

/** Lines of dashes and rows of one letter encode nothing. */
const varied = (blob: string): boolean => new Set(blob.slice(0, LONG)).size >= 8

/** What is written in it; null where that is no text. */
function decoded(blob: string): string | null {
  const hex = blob.length % 2 === 0 && /^[0-9a-f]+$/i.test(blob)
  const part = blob.slice(0, 4_000)
  const bytes = Buffer.from(part, hex ? 'hex' : 'base64')
  const text = bytes.toString('utf8')
  const odd = text.replace(/[\x20-\x7e\s]|\p{L}/gu, '').length
  return text.length >= 16 && odd <= text.length / 50 ? text : null
}
