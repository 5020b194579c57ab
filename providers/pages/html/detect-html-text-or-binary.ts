/** Classifies response content. */

const MARKUP_TYPE =
  /^(?:text\/html|application\/xhtml\+xml|text\/xml|application\/(?:[\w.-]+\+)?xml)$/
const TEXT_TYPE =
  /^(?:text\/|application\/(?:[\w.-]+\+)?(?:json|javascript|x-ndjson|yaml|x-yaml|toml)$)/
const KIND_SNIFF_BYTES = 1_024

/** Returns whether content is HTML, other text or binary, by its media type, else by its first bytes. */
export function detectContentKind(
  contentType: string | null,
  body: Uint8Array,
): 'html' | 'text' | null {
  const type = contentType?.split(';')[0]?.trim().toLowerCase() ?? ''
  if (MARKUP_TYPE.test(type)) return 'html'
  const head = Buffer.from(body.subarray(0, KIND_SNIFF_BYTES))
  const wide = (head[0] === 0xff && head[1] === 0xfe) || (head[0] === 0xfe && head[1] === 0xff)
  if (TEXT_TYPE.test(type)) return wide || !head.includes(0) ? 'text' : null
  if (type !== '' && type !== 'application/octet-stream' && type !== 'binary/octet-stream')
    return null
  if (head.includes(0)) return wide ? 'html' : null
  return /^(?:\ufeff|ï»¿)?\s*</.test(head.toString('latin1')) ? 'html' : 'text'
}
