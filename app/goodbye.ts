import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Lets a server that closes answer whole. Node takes for idle what was answered but is not read yet,
 * and cuts it off; and it does not close at all what answers its last request a moment later. Here a
 * connection is idle when its last answer has left, and what is not is closed as soon as it is.
 */
export function closesPolitely(server: Server): void {
  const answering = new Map<Socket, number>()
  let closing = false
  const part = (socket: Socket) => {
    if (closing && answering.get(socket) === 0) socket.destroySoon()
  }
  server.on('connection', (socket) => {
    answering.set(socket, 0)
    socket.once('close', () => answering.delete(socket))
  })
  // From then on it is another's.
  server.on('upgrade', ({ socket }) => answering.delete(socket))
  server.on('request', ({ socket }, response) => {
    const count = (change: number) => {
      const before = answering.get(socket)
      if (before !== undefined) answering.set(socket, before + change)
    }
    count(1)
    // After the last byte was handed to the system, or the client has gone.
    response.once('close', () => {
      count(-1)
      part(socket)
    })
  })
  server.closeIdleConnections = () => {
    closing = true
    for (const socket of answering.keys()) part(socket)
  }
}
