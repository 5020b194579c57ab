import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { LIMITS } from '../../core/limits.ts'

/**
 * Cuts off whoever takes nothing of its answer: twice `idleMs` after the last byte at the latest. Node's
 * timer of a connection begins again with every part of a write that the system has taken, so that a
 * slow reader gets all of it. While a call still runs there is nothing to take, and an event stream
 * that is open has rules of its own.
 */
export function installSendTimeout(
  server: Server,
  idleMs: number = LIMITS.responseIdleTimeoutMs,
): void {
  server.setTimeout(idleMs)
  server.on('request', (_request, response) => response.on('timeout', destroyIfStalled))
}

function destroyIfStalled(this: ServerResponse, socket: Socket): void {
  if (this.writableEnded && socket.writableLength > 0) socket.destroy()
}
