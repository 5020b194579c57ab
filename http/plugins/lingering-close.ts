import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import { LIMITS } from '../../core/limits.ts'

/**
 * Closes connections so that the other side hears the last answer. Where bytes are left unread a close
 * is a reset, and a reset takes away what was answered before it: whoever still sends a body that is
 * too large would never learn why. So only our own end is closed at first, and what still comes is
 * read and dropped, for `ms` at most.
 */
export function installLingeringClose(server: Server, ms: number = LIMITS.lingeringCloseMs): void {
  const requests = new WeakMap<Socket, IncomingMessage>()
  const known = new WeakSet<Socket>()
  server.on('request', (request) => requests.set(request.socket, request))
  server.on('connection', (socket: Socket) => {
    // One is announced anew with every offer of another protocol that is not taken up.
    if (known.has(socket)) return
    known.add(socket)
    const close = socket.destroySoon.bind(socket)
    // What Node closes a connection with after its last answer, whatever of the request has been read.
    socket.destroySoon = () => {
      if (requests.get(socket)?.complete !== false) return close()
      // Not until its body has come: what is behind it would be left unread.
      closeSocketLingering(socket, ms)
    }
  })
}

/** Closes our own end of a connection, and the other one when it is closed or `ms` are over. */
export function closeSocketLingering(socket: Socket, ms: number = LIMITS.lingeringCloseMs): void {
  if (socket.destroyed || socket.writableEnded) return
  const end = setTimeout(() => socket.destroy(), ms).unref()
  socket.once('close', () => clearTimeout(end))
  socket.once('end', () => socket.destroy())
  socket.end()
}

/** What still comes is dropped as it is: taken for requests, each would be kept until the connection ends. */
export function discardSocketInput(socket: Socket): void {
  socket.removeAllListeners('data')
  socket.on('data', () => {}).resume()
}
