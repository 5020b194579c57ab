import type { IncomingMessage, Server } from 'node:http'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { bodyTooLargeError, keylessBodyError } from './body-parser.ts'
import type { RequestHook } from './request-hooks.ts'

/** Refuses bodies by their headers, before a byte of them is read (decision 390). */

const expecting = new WeakSet<IncomingMessage>()

/**
 * Passes requests with `Expect: 100-continue` on to the hooks: Node would ask for the body at once, and a client that
 * is refused later has sent it for nothing.
 */
export function installContinueGate(server: Server): void {
  server.on('checkContinue', (request, response) => {
    expecting.add(request)
    server.emit('request', request, response)
  })
}

/** The last step: everything that needs no body has agreed. */
export const askForBody: RequestHook = ({ raw }, reply) => {
  if (expecting.delete(raw)) reply.raw.writeContinue()
}

/** Throws 413 for a longer body than the route takes, 415 for a compressed one. */
export const assertBodyReadable: RequestHook = ({ headers, routeOptions }, reply) => {
  const { 'content-length': length = '0', 'content-encoding': encoding } = headers
  const limit = routeOptions.bodyLimit ?? LIMITS.bodyBytes
  if (Number(length) > limit) {
    reply.header('connection', 'close')
    throw bodyTooLargeError(limit)
  }
  if (encoding === undefined || /^(identity)?$/i.test(encoding.trim())) return
  if (length === '0' && headers['transfer-encoding'] === undefined) return
  // RFC 9110, 15.5.16: what would be read instead.
  reply.header('accept-encoding', 'identity')
  throw new ServiceError('unsupported_media_type', {
    detail: `A body in the encoding ${encoding.slice(0, 40)} is not read: send it uncompressed.`,
  })
}

/** Throws 413 for a body that only a caller with a key may send. */
export const assertKeylessBodySize: RequestHook = ({ apiKey, headers }, reply) => {
  if (apiKey !== null || Number(headers['content-length'] ?? 0) <= LIMITS.bodyBytes) return
  reply.header('connection', 'close')
  throw keylessBodyError()
}
