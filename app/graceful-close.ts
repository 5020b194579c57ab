import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** What is on its way on a connection. */
interface OpenConnection {
  openResponses: number
  /** The last request that has come. */
  lastRequest: IncomingMessage | null
}

/**
 * Lets a server that closes answer whole. Node takes for idle what was answered but is not read yet,
 * and cuts it off; it does not close at all what answers its last request a moment later; and it looks
 * no longer after requests that never end. Here a connection is idle when its last answer has left,
 * what is not is closed as soon as it is, and requests have `requestTimeout` from here on.
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
    // One that offers other protocols is announced again and again.
    socket.off('close', forget).once('close', forget)
  })
  // From then on it is another's. Before the others: who wants none gives it back as a new connection.
  server.prependListener('upgrade', ({ socket }) => lines.delete(socket))
  server.on('request', (request, response) => {
    const { socket } = request
    const line = lines.get(socket)
    if (line === undefined) return
    line.openResponses += 1
    line.lastRequest = request
    // After the last byte was handed to the system, or the client has gone.
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

/** Tells whoever has still not sent a whole request that it is too late, as Node does before. */
function timeOutIncompleteRequests(
  server: Server,
  lines: ReadonlyMap<Socket, OpenConnection>,
): void {
  const late = Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  for (const [socket, { lastRequest }] of lines) {
    if (lastRequest?.complete === false) server.emit('clientError', late, socket)
  }
}
