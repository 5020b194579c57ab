import { detectBomCharset } from '../../egress/parse-response-body.ts'
import { decodeWindows1252 } from './windows-1252.ts'

/** Decodes the bytes of a page. */

const CHARSET_SNIFF_BYTES = 1_024
const META_CHARSET = /<meta[^>]{0,300}?charset\s*=\s*["']?\s*([^\s"'/>;]+)/i

/**
 * Decodes by byte order mark, Content-Type, `<meta>` in the first KiB, else as UTF-8, or as Windows-1252
 * where it is no valid UTF-8.
 */
export function decodePageBytes(body: Uint8Array | string, contentType: string | null): string {
  if (typeof body === 'string') return body
  const named = /charset\s*=\s*"?([^\s;"]+)/i.exec(contentType ?? '')?.[1]
  const label = detectBomCharset(body) ?? named ?? findMetaCharset(body)
  if (label !== null) {
    try {
      const decoder = new TextDecoder(label)
      return decoder.encoding === 'windows-1252' ? decodeWindows1252(body) : decoder.decode(body)
    } catch {
      // an unknown charset is ignored
    }
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch {
    return decodeWindows1252(body)
  }
}

function findMetaCharset(body: Uint8Array): string | null {
  const head = new TextDecoder('latin1').decode(body.subarray(0, CHARSET_SNIFF_BYTES))
  const label = META_CHARSET.exec(head)?.[1] ?? null
  // A `<meta>` that is readable as ASCII cannot be in UTF-16.
  return label !== null && /^utf-16/i.test(label) ? 'utf-8' : label
}
