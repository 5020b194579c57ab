import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { LIMITS } from '../../core/limits.ts'

/**
 * Closes a connection whose reader accepts no data, at most twice `idleMs` after the last byte. Node restarts
 * its timer with every chunk that the system accepts, so a slow reader gets the whole response. Running calls
 * have nothing to send yet, and open event streams have their own timeouts.
 */
export function installStalledClientTimeout(
  server: Server,
  idleMs: number = LIMITS.responseIdleTimeoutMs,
): void {
  server.setTimeout(idleMs)
  server.on('request', (_request, response) => response.on('timeout', destroyIfStalled))
}

function destroyIfStalled(this: ServerResponse, socket: Socket): void {
  if (this.writableEnded && socket.writableLength > 0) socket.destroy()
}
