import type { WebSocket } from 'ws'

const MOST_MISSES = 2

/** Pings a socket, and ends one whose client has not answered twice. */
export function keepAlive(socket: WebSocket, everyMs: number): void {
  let misses = 0
  const beat = setInterval(() => {
    if (misses >= MOST_MISSES) return socket.terminate()
    misses += 1
    socket.ping()
  }, everyMs)
  beat.unref()
  socket.on('pong', () => {
    misses = 0
  })
  socket.once('close', () => clearInterval(beat))
}
