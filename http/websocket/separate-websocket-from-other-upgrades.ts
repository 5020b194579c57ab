import { EventEmitter } from 'node:events'
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Separates WebSocket upgrades from other ones. With an `upgrade` listener, Node hands over every request
 * that offers an upgrade, and some HTTP clients offer `h2c` with each request. Those go back to the server
 * without the offer, which it may ignore (RFC 9110, 7.8).
 */
export function createNonWebSocketUpgradeIgnorer(server: Server) {
  const upgrades = new EventEmitter()
  const offered = new WeakSet<IncomingMessage>()
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    if (request.headers.upgrade?.toLowerCase() === 'websocket') {
      offered.add(request)
      upgrades.emit('upgrade', request, socket, head)
      return
    }
    socket.unshift(Buffer.concat([Buffer.from(serializeWithoutUpgrade(request), 'latin1'), head]))
    server.emit('connection', socket)
  })
  return {
    /** Emits `upgrade` like a server. */
    server: upgrades as unknown as Server,
    /** Returns whether a request came on a connection that left HTTP. */
    isOne: (request: IncomingMessage): boolean => offered.has(request),
  }
}

const UPGRADE_HEADERS = new Set(['upgrade', 'http2-settings'])

function serializeWithoutUpgrade({
  method,
  url,
  httpVersion,
  rawHeaders,
}: IncomingMessage): string {
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = [rawHeaders[at], rawHeaders[at + 1]]
    if (UPGRADE_HEADERS.has(name.toLowerCase())) continue
    lines.push(`${name}: ${name.toLowerCase() === 'connection' ? keepOtherOptions(value) : value}`)
  }
  return `${lines.join('\r\n')}\r\n\r\n`
}

const keepOtherOptions = (connection: string): string =>
  connection
    .split(',')
    .filter((option) => !UPGRADE_HEADERS.has(option.trim().toLowerCase()))
    .join(',')
