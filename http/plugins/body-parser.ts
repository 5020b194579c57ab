import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  UNSAFE_INTEGER_MESSAGE,
  findUnsafeIntegers,
} from '../../core/validation/unsafe-json-integers.ts'
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

/** Only such an escape puts NUL or a lone surrogate into JSON of well-formed UTF-8. */
const UNICODE_ESCAPE = '\\u'
const UNSTORABLE = /\0|\p{Surrogate}/u
const UNSTORABLE_DETAIL = 'must not contain NUL or lone surrogates'
const JSON_TYPE = /^application\/json\s*(;|$)/i
const CHARSET = /;\s*charset\s*=\s*"?([^";\s]+)/i

/**
 * Parses JSON bodies, the only kind accepted: `application/json` in UTF-8, at most `LIMITS.jsonDepth` deep.
 * Refuses poisoned prototypes, numbers that a double cannot hold, and text that Postgres cannot store; the
 * last applies to queries too.
 */
export function installBodyParser(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.decorateRequest('bodyBytes', 0)
  app.decorateRequest('rawBody')
  app.decorateRequest('bodyError', null)
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    (request: FastifyRequest, bytes: Buffer, pass) => {
      const done = (error: Error | null, body?: unknown) => {
        if (error !== null) request.bodyError = error
        pass(null, body)
      }
      const type = request.headers['content-type'] ?? ''
      const charset = CHARSET.exec(type)?.[1] ?? 'utf-8'
      if (!JSON_TYPE.test(type) || !/^utf-?8$/i.test(charset)) {
        return done(new ServiceError('unsupported_media_type'))
      }
      request.bodyBytes = bytes.length
      request.rawBody = bytes
      if (bytes.length === 0) return done(null, undefined)
      if (!isUtf8(bytes)) return done(invalidInputError('', 'must be text in UTF-8'))
      const text = bytes.toString('utf8')
      void parse(request, text, (error, body) => {
        if (error !== null) return done(error)
        try {
          checkJson(body, '', 0, findUnsafeIntegers(text), text.includes(UNICODE_ESCAPE))
          done(null, body)
        } catch (refused) {
          done(refused as Error)
        }
      })
    },
  )
}

/**
 * Refuses what cannot be read. Fastify closes the connection when a parser fails, with the pipelined requests
 * behind it; the parser has read the whole body, so the request is refused here like any other invalid input.
 */
export const assertRequestBodyParsed: RequestHook = (request) => {
  if (request.bodyError !== null) throw request.bodyError
  checkQuery(request.query)
  // An absent body counts as an empty object, so that the schema names the missing fields.
  if (request.body === undefined && request.routeOptions.schema?.body !== undefined)
    request.body = {}
}

function checkJson(
  value: unknown,
  pointer: string,
  depth: number,
  lost: ReadonlySet<number>,
  hasEscapes: boolean,
): void {
  if (typeof value === 'string') return hasEscapes ? checkText(value, pointer) : undefined
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw invalidInputError(pointer, 'must be a finite number')
  }
  if (lost.size > 0 && lost.has(value as number))
    throw invalidInputError(pointer, UNSAFE_INTEGER_MESSAGE)
  if (typeof value !== 'object' || value === null) return
  if (depth >= LIMITS.jsonDepth) {
    throw invalidInputError(
      pointer.slice(0, 200),
      `must not be nested deeper than ${LIMITS.jsonDepth} levels`,
    )
  }
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++)
      checkJson(value[at], `${pointer}/${at}`, depth + 1, lost, hasEscapes)
    return
  }
  for (const name of Object.keys(value)) {
    if (hasEscapes) checkText(name, pointer)
    const inner = (value as Record<string, unknown>)[name]
    // The address of a text is needed only where it is checked.
    if (typeof inner === 'string' && !hasEscapes) continue
    checkJson(inner, `${pointer}/${escapeJsonPointer(name)}`, depth + 1, lost, hasEscapes)
  }
}

function checkQuery(query: unknown): void {
  for (const [name, given] of Object.entries(query ?? {})) {
    const texts = [name, ...(Array.isArray(given) ? given : [given])]
    if (!texts.some((text) => typeof text === 'string' && UNSTORABLE.test(text))) continue
    const [pointer, detail] = [`/${escapeJsonPointer(name)}`, UNSTORABLE_DETAIL]
    const errors = [{ pointer, detail, in: 'query' }]
    throw new ServiceError('invalid_input', { detail: `${pointer} ${detail}`, errors })
  }
}

function checkText(text: string, pointer: string): void {
  if (UNSTORABLE.test(text)) throw invalidInputError(pointer, UNSTORABLE_DETAIL)
}
