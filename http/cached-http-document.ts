import type { FastifyReply, FastifyRequest } from 'fastify'
import { SECOND, type Clock } from '../core/clock.ts'
import {
  sendPrecompressedContent,
  toPrecompressedContent,
  type PrecompressedContent,
} from './precompressed-content.ts'

/** Documents and pages that are the same for all callers, kept with their compressed forms and entity tags. */

const MAX_AGE_MS = 5 * SECOND
const JSON_TYPE = 'application/json; charset=utf-8'

export interface CachedDocumentHandlerDeps {
  readonly clock: Pick<Clock, 'mono'>
  /** Returns what the document says; must not depend on the request. */
  readonly read: () => unknown
  /** How long a document is sent before it is read again; default five seconds. */
  readonly maxAgeMs?: number
  /** The media type of a document that is read as text; without it, it is read as a value and sent as JSON. */
  readonly type?: string
  /** Headers of the document that was read last; a 304 has them too. */
  readonly headers?: (request: FastifyRequest) => Readonly<Record<string, string>>
}

/** Answers a request with the document: 200 in the best accepted coding, or 304. */
export type CachedDocumentHandler = (request: FastifyRequest, reply: FastifyReply) => void

/**
 * Creates a document that is the same for every caller. It is read at most once in `maxAgeMs`, and its bytes
 * and tags stay while its text does.
 */
export function createCachedDocumentHandler({
  clock,
  read,
  maxAgeMs = MAX_AGE_MS,
  type,
  headers,
}: CachedDocumentHandlerDeps): CachedDocumentHandler {
  let current: { readonly text: string; readonly content: PrecompressedContent } | null = null
  let staleAt = -Infinity
  let reading: Promise<PrecompressedContent> | null = null

  function keep(value: unknown, reply: FastifyReply): PrecompressedContent {
    const text = type === undefined ? (reply.serialize(value as object) as string) : String(value)
    staleAt = clock.mono() + maxAgeMs
    if (current?.text !== text)
      current = { text, content: toPrecompressedContent(type ?? JSON_TYPE, text) }
    return current.content
  }

  /** A promise only while a document is read that has to be waited for; requests meanwhile share it. */
  function contentFor(reply: FastifyReply): PrecompressedContent | Promise<PrecompressedContent> {
    if (current !== null && clock.mono() < staleAt) return current.content
    if (reading !== null) return reading
    const value = read()
    if (!(value instanceof Promise)) return keep(value, reply)
    reading = value
      .then((ready: unknown) => keep(ready, reply))
      .finally(() => {
        reading = null
      })
    return reading
  }

  return (request, reply) => {
    const content = contentFor(reply)
    if (headers !== undefined) reply.headers(headers(request))
    if (content instanceof Promise)
      content.then(
        (ready) => sendPrecompressedContent(request, reply, ready),
        (error: unknown) => reply.send(error),
      )
    else sendPrecompressedContent(request, reply, content)
  }
}
