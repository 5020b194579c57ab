import { randomUUID } from 'node:crypto'
import type { Server, ServerResponse } from 'node:http'
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { httpStatusOf, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { toProblemDocument, type ProblemDocumentContext } from '../../core/problem-document.ts'
import { closeSocketLingering } from './lingering-close.ts'
import { isConnectionReadingPaused } from './http-pipelining-limit.ts'

/** Replies to connections whose input never becomes a request. */

/** What the parser of HTTP refuses. */
type ParserError = Error & { readonly code?: string; readonly reason?: string }

function toParserServiceError({ code, reason }: ParserError): ServiceError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ServiceError('request_timeout')
    case 'HPE_HEADER_OVERFLOW':
      return new ServiceError('headers_too_large', {
        detail: `All headers together must have at most ${LIMITS.headerBytes} bytes.`,
        limit_bytes: LIMITS.headerBytes,
      })
    default: {
      const why = reason === undefined ? '' : `: ${reason}`
      return new ServiceError('invalid_input', { detail: `The request is not valid HTTP${why}.` })
    }
  }
}

/**
 * Refuses input that is too slow, too large or not HTTP. Earlier requests on the connection are answered
 * first: they may be paid, and responses must keep the order of requests.
 */
export function createSocketClientErrorHandler(origin: ProblemDocumentContext) {
  const open = new WeakMap<Socket, Set<ServerResponse>>()
  const waiting = new WeakSet<ServerResponse>()

  function refuse(error: ParserError, socket: Socket): void {
    // Input after a refusal fails again; the reader has its response already.
    if (error.code === 'ECONNRESET' || socket.destroyed || socket.writableEnded) return
    // The request is unfinished because this node does not read on.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isConnectionReadingPaused(socket)) return
    const ahead = [...(open.get(socket) ?? [])].findLast(isInProgress)
    if (ahead === undefined) {
      const refusal = toParserServiceError(error)
      if (socket.writable) socket.write(toRawProblemResponse(refusal, origin, randomUUID()))
      return closeSocketLingering(socket)
    }
    // Each further chunk raises the error again.
    if (waiting.has(ahead)) return
    waiting.add(ahead)
    ahead.once('close', () => refuse(error, socket))
  }

  return {
    refuse,
    watch(server: Server): void {
      server.on('request', ({ socket }, response) => {
        const responses = open.get(socket) ?? new Set()
        open.set(socket, responses.add(response))
        response.once('close', () => responses.delete(response))
      })
    },
  }
}

/**
 * Returns whether a response does not need the refused input: its request is complete, or its headers are
 * sent.
 */
const isInProgress = ({ req, headersSent }: ServerResponse): boolean => req.complete || headersSent

/** Returns a whole response for a connection without a reply object, after which it has to close. */
export function toRawProblemResponse(
  error: ServiceError,
  origin: ProblemDocumentContext,
  requestId: string,
  headers = '',
): string {
  const status = httpStatusOf(error.code)
  const body = JSON.stringify(toProblemDocument(error, origin, `urn:request:${requestId}`))
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nX-Request-Id: ${requestId}\r\n${headers}Connection: close\r\n\r\n${body}`
}
