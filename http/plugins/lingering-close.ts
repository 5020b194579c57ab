import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import { LIMITS } from '../../core/limits.ts'

/**
 * Closes connections so that the client receives the last response. Closing with unread bytes sends a reset,
 * which discards the response, so a client that still sends an oversized body would never get its 413.
 * Instead the write side is closed first; further input is read and dropped for at most `ms`.
 */
export function installLingeringClose(server: Server, ms: number = LIMITS.lingeringCloseMs): void {
  const requests = new WeakMap<Socket, IncomingMessage>()
  const known = new WeakSet<Socket>()
  server.on('request', (request) => requests.set(request.socket, request))
  server.on('connection', (socket: Socket) => {
    // Node emits the event again for every protocol upgrade that is offered and not accepted.
    if (known.has(socket)) return
    known.add(socket)
    const close = socket.destroySoon.bind(socket)
    // Node calls this to close a connection after its last response, however much of the request is read.
    socket.destroySoon = () => {
      if (requests.get(socket)?.complete !== false) return close()
      // Wait for the whole body: input behind it would be left unread.
      closeSocketLingering(socket, ms)
    }
  })
}

/** Closes the write side, and the socket when the peer closes or after `ms`. */
export function closeSocketLingering(socket: Socket, ms: number = LIMITS.lingeringCloseMs): void {
  if (socket.destroyed || socket.writableEnded) return
  const end = setTimeout(() => socket.destroy(), ms).unref()
  socket.once('close', () => clearTimeout(end))
  socket.once('end', () => socket.destroy())
  socket.end()
}

/** Drops further input unparsed: parsed as requests, each would be kept until the connection ends. */
export function discardSocketInput(socket: Socket): void {
  socket.removeAllListeners('data')
  socket.on('data', () => {}).resume()
}
