import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  assertSafeJson,
  findRequestFault,
  markJsonText,
  UNSTORABLE_TEXT,
  UNSTORABLE_TEXT_DETAIL,
} from '../../core/validation/safe-json.ts'
import { escapeJsonPointer } from '../../core/validation/validation-errors.ts'
import type { RequestHook } from './request-hooks.ts'

/** The 413 error for a body or text above its limit. */
export const bodyTooLargeError = (limitBytes: number, what = 'The body'): ServiceError =>
  new ServiceError('body_too_large', {
    detail: `${what} must have at most ${limitBytes} bytes.`,
    limit_bytes: limitBytes,
  })

/** Throws 413 for a text above a limit in bytes, since a schema counts characters. */
export function assertMaxBytes(text: string, limitBytes: number, pointer: string): void {
  if (Buffer.byteLength(text) <= limitBytes) return
  const detail = `must have at most ${limitBytes} bytes`
  throw new ServiceError('body_too_large', {
    detail: `${pointer} ${detail}.`,
    limit_bytes: limitBytes,
    errors: [{ pointer, detail }],
  })
}

/** The 400 error for a body that is no JSON. */
export const bodyNotJsonError = (): ServiceError =>
  new ServiceError('invalid_input', {
    detail: 'The body must be valid JSON.',
    errors: [{ pointer: '', detail: 'must be valid JSON' }],
  })

/** Parses JSON, with or without a byte order mark. */
function parseJsonText(text: string): unknown {
  try {
    return JSON.parse(text.startsWith('\ufeff') ? text.slice(1) : text) as unknown
  } catch {
    throw bodyNotJsonError()
  }
}

const JSON_TYPE = /^application\/json\s*(;|$)/i
const CHARSET = /;\s*charset\s*=\s*"?([^";\s]+)/i

/**
 * Parses JSON bodies, the only kind accepted: `application/json` in UTF-8. What is cheap to see comes first
 * (decision 390): the size, the rate, the shape of the text. Then it is parsed, and the route's schema names unknown
 * fields; what is left is searched by `assertBodySafe`.
 */
export function installBodyParser(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.decorateRequest('bodyBytes', 0)
  app.decorateRequest('rawBody')
  app.decorateRequest('bodyError', null)
  app.decorateRequest('bodyMarks', null)
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    (request: FastifyRequest, bytes: Buffer, pass) => {
      const done = (refused: Error | null, body?: unknown) => {
        request.bodyError = refused
        pass(null, body)
      }
      const read = () => {
        let body: unknown
        try {
          body = readBody(request, bytes)
        } catch (refused) {
          return done(refused as Error)
        }
        done(null, body)
      }
      // The gate has counted a length that was stated.
      if (request.headers['content-length'] !== undefined) return read()
      app.limits.consumeBody(request, bytes.length).then(read, done)
    },
  )
}

/** Returns the parsed body; undefined for an empty one, and where nobody will look at it. */
function readBody(request: FastifyRequest, bytes: Buffer): unknown {
  const type = request.headers['content-type'] ?? ''
  const charset = CHARSET.exec(type)?.[1] ?? 'utf-8'
  if (!JSON_TYPE.test(type) || !/^utf-?8$/i.test(charset))
    throw new ServiceError('unsupported_media_type')
  request.bodyBytes = bytes.length
  request.rawBody = bytes
  if (bytes.length === 0 || request.is404) return undefined
  const hasKey = request.apiKey !== null
  if (!hasKey && bytes.length > LIMITS.bodyBytes) throw keylessBodyError()
  if (!isUtf8(bytes)) throw invalidInputError('', 'must be text in UTF-8')
  const misshapen = findRequestFault(bytes, hasKey ? LIMITS.jsonValuesWithKey : LIMITS.jsonValues)
  if (misshapen !== null) throw invalidInputError('', misshapen)
  const text = bytes.toString('utf8')
  const body = parseJsonText(text)
  request.bodyMarks = markJsonText(text)
  return body
}

/** The 413 for what only a caller with a key may send (decision 15). */
export const keylessBodyError = (): ServiceError =>
  bodyTooLargeError(LIMITS.bodyBytes, 'The body of a caller without a key')

/**
 * Refuses what cannot be read. Fastify closes the connection when a parser fails, with the pipelined requests
 * behind it; the parser has read the whole body, so the request is refused here like any other invalid input.
 */
export const assertRequestBodyParsed: RequestHook = (request) => {
  if (request.bodyError !== null) throw request.bodyError
  assertDecodableQuery(request.url)
  checkQuery(request.query)
  // No body, and null, count as an empty object, so that the schema names the missing fields.
  if ((request.body ?? null) === null && request.routeOptions.schema?.body !== undefined)
    request.body = {}
}

/** Refuses what is unsafe in a body that the route's schema allows. */
export const assertBodySafe: RequestHook = ({ body, bodyMarks }) => {
  if (bodyMarks !== null) assertSafeJson(body, bodyMarks)
}

/** The parser leaves what it cannot decode as it is; a search for the text `caf%E9` finds nothing and says so to nobody. */
function assertDecodableQuery(url: string): void {
  const start = url.indexOf('?')
  if (start === -1 || !url.includes('%', start)) return
  for (const pair of url.slice(start + 1).split('&')) {
    if (isDecodable(pair)) continue
    const name = pair.split('=', 1)[0] ?? ''
    const pointer = isDecodable(name) ? `/${escapeJsonPointer(decodeURIComponent(name))}` : ''
    const detail = 'must be percent-encoded UTF-8: % and two hex digits for each byte'
    const errors = [{ pointer, detail, in: 'query' }]
    throw new ServiceError('invalid_input', { detail: `${pointer} ${detail}`.trim(), errors })
  }
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

function checkQuery(query: unknown): void {
  for (const [name, given] of Object.entries(query ?? {})) {
    const texts = [name, ...(Array.isArray(given) ? given : [given])]
    if (!texts.some((text) => typeof text === 'string' && UNSTORABLE_TEXT.test(text))) continue
    const [pointer, detail] = [`/${escapeJsonPointer(name)}`, UNSTORABLE_TEXT_DETAIL]
    const errors = [{ pointer, detail, in: 'query' }]
    throw new ServiceError('invalid_input', { detail: `${pointer} ${detail}`, errors })
  }
}
