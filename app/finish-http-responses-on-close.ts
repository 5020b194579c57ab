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
export function installGracefulHttpServerClose(server: Server): void {
  const connections = new Map<Socket, OpenConnection>()
  let closing = false
  const closeIfIdle = (socket: Socket) => {
    if (closing && connections.get(socket)?.openResponses === 0) socket.destroySoon()
  }
  function forget(this: Socket): void {
    connections.delete(this)
  }
  server.on('connection', (socket) => {
    connections.set(socket, { openResponses: 0, lastRequest: null })
    // A connection that offers an upgrade is emitted again.
    socket.off('close', forget).once('close', forget)
  })
  // An upgraded connection belongs to another server. Runs first: a rejected upgrade returns as a
  // new connection.
  server.prependListener('upgrade', ({ socket }) => connections.delete(socket))
  server.on('request', (request, response) => {
    const { socket } = request
    const connection = connections.get(socket)
    if (connection === undefined) return
    connection.openResponses += 1
    connection.lastRequest = request
    // Emitted when the response was handed to the system or the client has disconnected.
    response.once('close', () => {
      connection.openResponses -= 1
      closeIfIdle(socket)
    })
  })
  server.closeIdleConnections = () => {
    if (!closing)
      setTimeout(
        () => timeOutIncompleteRequests(server, connections),
        server.requestTimeout,
      ).unref()
    closing = true
    for (const socket of connections.keys()) closeIfIdle(socket)
  }
}

/** Times out incomplete requests, as Node does while it is not closing. */
function timeOutIncompleteRequests(
  server: Server,
  connections: ReadonlyMap<Socket, OpenConnection>,
): void {
  const late = Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  for (const [socket, { lastRequest }] of connections) {
    if (lastRequest?.complete === false) server.emit('clientError', late, socket)
  }
}
