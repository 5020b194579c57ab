import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** Lets a closing HTTP server finish its responses. */

/** State of one connection. */
interface OpenConnection {
  openResponses: number
  /** The last request on it. */
  lastRequest: IncomingMessage | null
}

/**
 * Replaces the idle check of Node's `server.close`, which cuts off responses that are sent but not
 * read, leaves connections open whose last response comes later, and stops the timeout of
 * incomplete requests. Here a connection is idle when its last response was sent, is closed as soon
 * as it is idle, and incomplete requests time out after `requestTimeout`.
 */
export function installGracefulClose(server: Server): void {
  const lines = new Map<Socket, OpenConnection>()
  let closing = false
  const part = (socket: Socket) => {
    if (closing && lines.get(socket)?.openResponses === 0) socket.destroySoon()
  }
  function forget(this: Socket): void {
    lines.delete(this)
  }
  server.on('connection', (socket) => {
    lines.set(socket, { openResponses: 0, lastRequest: null })
    // A connection that offers an upgrade is emitted again.
    socket.off('close', forget).once('close', forget)
  })
  // An upgraded connection belongs to another server. Runs first: a rejected upgrade returns as a
  // new connection.
  server.prependListener('upgrade', ({ socket }) => lines.delete(socket))
  server.on('request', (request, response) => {
    const { socket } = request
    const line = lines.get(socket)
    if (line === undefined) return
    line.openResponses += 1
    line.lastRequest = request
    // Emitted when the response was handed to the system or the client has disconnected.
    response.once('close', () => {
      line.openResponses -= 1
      part(socket)
    })
  })
  server.closeIdleConnections = () => {
    if (!closing)
      setTimeout(() => timeOutIncompleteRequests(server, lines), server.requestTimeout).unref()
    closing = true
    for (const socket of lines.keys()) part(socket)
  }
}

/** Times out incomplete requests, as Node does while it is not closing. */
function timeOutIncompleteRequests(
  server: Server,
  lines: ReadonlyMap<Socket, OpenConnection>,
): void {
  const late = Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  for (const [socket, { lastRequest }] of lines) {
    if (lastRequest?.complete === false) server.emit('clientError', late, socket)
  }
}
