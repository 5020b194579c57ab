import { randomUUID } from 'node:crypto'
import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { closeSocketLingering } from './lingering-close.ts'
import { isConnectionReadingPaused } from './http-pipelining-limit.ts'

/** Replies to connections whose input never becomes a request. */

const STATUS_LINES: Record<string, string> = {
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
}

/**
 * Refuses input that is too slow, too large or not HTTP. Earlier requests on the connection are answered
 * first: they may be paid, and responses must keep the order of requests.
 */
export function createSocketClientErrorHandler() {
  const open = new WeakMap<Socket, Set<ServerResponse>>()
  const waiting = new WeakSet<ServerResponse>()

  function refuse(error: Error & { code?: string }, socket: Socket): void {
    // Input after a refusal fails again; the reader has its response already.
    if (error.code === 'ECONNRESET' || socket.destroyed || socket.writableEnded) return
    // The request is unfinished because this node does not read on.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isConnectionReadingPaused(socket)) return
    const ahead = [...(open.get(socket) ?? [])].findLast(isInProgress)
    if (ahead === undefined) {
      if (socket.writable) socket.write(toRawErrorResponse(error))
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

const toRawErrorResponse = ({ code = '' }: { code?: string }): string =>
  toRawProblemResponse(STATUS_LINES[code] ?? '400 Bad Request', randomUUID())

/** Returns a whole response for a connection without a reply object, after which it has to close. */
export function toRawProblemResponse(
  status: string,
  requestId: string,
  { detail, headers = '' }: { detail?: string; headers?: string } = {},
): string {
  const body = JSON.stringify({
    type: 'about:blank',
    title: status.slice(4),
    status: Number(status.slice(0, 3)),
    ...(detail === undefined ? {} : { detail }),
    instance: `urn:request:${requestId}`,
  })
  return `HTTP/1.1 ${status}\r\nContent-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nX-Request-Id: ${requestId}\r\n${headers}Connection: close\r\n\r\n${body}`
}
