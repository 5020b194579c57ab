import type { WebSocket } from 'ws'

/** Heartbeat of WebSockets. */

const MAX_MISSED_PONGS = 2

/** Pings a socket, and terminates it after two missed pongs. */
export function startWebSocketHeartbeat(socket: WebSocket, everyMs: number): void {
  let misses = 0
  const beat = setInterval(() => {
    if (misses >= MAX_MISSED_PONGS) return socket.terminate()
    misses += 1
    socket.ping()
  }, everyMs)
  beat.unref()
  socket.on('pong', () => {
    misses = 0
  })
  socket.once('close', () => clearInterval(beat))
}
