import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** Content that many callers get alike: compressed once, with an entity tag for each coding. */

const toGzip = promisify(gzip)
const toBrotli = promisify(brotliCompress)
/** Compressed once and sent many times; higher levels take seconds for a few per cent. */
const BROTLI_OPTIONS = { params: { [constants.BROTLI_PARAM_QUALITY]: 6 } }

type ContentCoding = 'br' | 'gzip' | 'identity'

/** One form of the content, ready to send. */
interface Representation {
  readonly coding: ContentCoding
  readonly bytes: Buffer
  readonly etag: string
}

export interface PrecompressedContent {
  readonly type: string
  readonly identity: Representation
  readonly compressed: Map<ContentCoding, Representation | Promise<Representation>>
}

/** Content of a media type, from its text or bytes. */
export function toPrecompressedContent(type: string, body: string | Buffer): PrecompressedContent {
  const bytes = Buffer.from(body)
  const etag = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
  return { type, identity: { coding: 'identity', bytes, etag: `"${etag}"` }, compressed: new Map() }
}

/** Answers a request with the content: 200 in the best accepted coding, or 304. */
export function sendPrecompressedContent(
  request: FastifyRequest,
  reply: FastifyReply,
  content: PrecompressedContent,
): void {
  const coding = preferredCoding(request.headers['accept-encoding'])
  const found = coding === 'identity' ? content.identity : compressedOf(content, coding)
  if (found instanceof Promise)
    found.then(
      (ready) => sendRepresentation(request, reply, content.type, ready),
      (error: unknown) => reply.send(error),
    )
  else sendRepresentation(request, reply, content.type, found)
}

/** Compresses on the first request, off the event loop; requests that come meanwhile share the work. */
function compressedOf(
  { identity, compressed }: PrecompressedContent,
  coding: 'br' | 'gzip',
): Representation | Promise<Representation> {
  const known = compressed.get(coding)
  if (known !== undefined) return known
  const work = (
    coding === 'br' ? toBrotli(identity.bytes, BROTLI_OPTIONS) : toGzip(identity.bytes)
  ).then(
    (bytes) => {
      const ready = { coding, bytes, etag: identity.etag.replace(/"$/, `-${coding}"`) }
      compressed.set(coding, ready)
      return ready
    },
    (error: unknown) => {
      compressed.delete(coding)
      throw error
    },
  )
  compressed.set(coding, work)
  return work
}

function sendRepresentation(
  { headers, method }: FastifyRequest,
  reply: FastifyReply,
  type: string,
  { coding, bytes, etag }: Representation,
): FastifyReply {
  const vary = reply.getHeader('vary')
  reply
    .header('etag', etag)
    .header('vary', vary === undefined ? 'Accept-Encoding' : `${String(vary)}, Accept-Encoding`)
  if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'public, no-cache')
  // The length of an answer to HEAD is that of the document, also without one.
  if (isKnown(headers['if-none-match'], etag))
    return method === 'HEAD' ? reply.code(304).type(type).send(bytes) : reply.code(304).send()
  if (coding !== 'identity') reply.header('content-encoding', coding)
  return reply.type(type).send(bytes)
}

/** Compares tags weakly, as RFC 9110, 13.1.2 says: proxies weaken what they compress. */
function isKnown(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  if (header === etag || header.trim() === '*') return true
  return header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag)
}

/** Returns the coding with the highest weight (RFC 9110, 12.5.3), the smallest among equal ones. */
function preferredCoding(header: string | string[] | undefined): ContentCoding {
  if (header === undefined || header.length === 0) return 'identity'
  const weights = toCodingWeights(String(header))
  const weightOf = (coding: string, unnamed: number) =>
    weights.get(coding) ?? weights.get('*') ?? unnamed
  const best = Math.max(weightOf('br', 0), weightOf('gzip', 0))
  // Something has to be sent: without any accepted coding it is the document as it is.
  if (best === 0 || (weights.get('identity') ?? 0) > best) return 'identity'
  return weightOf('br', 0) === best ? 'br' : 'gzip'
}

function toCodingWeights(header: string): Map<string, number> {
  const weights = new Map<string, number>()
  for (const entry of header.toLowerCase().split(',')) {
    const [name = '', ...parameters] = entry.split(';').map((part) => part.trim())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))
    const value = weight === undefined ? 1 : Number(weight.slice(2))
    weights.set(name === 'x-gzip' ? 'gzip' : name, value >= 0 && value <= 1 ? value : 0)
  }
  return weights
}
