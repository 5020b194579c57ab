import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { closeSocketLingering } from './lingering-close.ts'

const STATUS_LINES: Record<string, string> = {
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
}

/**
 * Refuses what never became a request: too slow, too large, or not HTTP. Requests that came before it on
 * the connection are answered first: they may have been paid for, and the first answer is the first
 * request's.
 */
export function createClientErrorHandler() {
  const open = new WeakMap<Socket, Set<ServerResponse>>()
  const waiting = new WeakSet<ServerResponse>()

  function refuse(error: Error & { code?: string }, socket: Socket): void {
    // What still comes after a refusal is refused again: nobody reads that.
    if (error.code === 'ECONNRESET' || socket.destroyed || socket.writableEnded) return
    const ahead = [...(open.get(socket) ?? [])].findLast(isInProgress)
    if (ahead === undefined) {
      if (socket.writable) socket.write(toRawErrorResponse(error))
      return closeSocketLingering(socket)
    }
    // Every further part of it is an error again.
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

/** An answer that does not need what is refused: its request is there, or it has begun. */
const isInProgress = ({ req, headersSent }: ServerResponse): boolean => req.complete || headersSent

function toRawErrorResponse({ code = '' }: { code?: string }): string {
  const status = STATUS_LINES[code] ?? '400 Bad Request'
  const body = JSON.stringify({
    type: 'about:blank',
    title: status.slice(4),
    status: Number(status.slice(0, 3)),
  })
  return `HTTP/1.1 ${status}\r\nContent-Type: application/problem+json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`
}
