import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'
import { timingSafeTextEqual } from '../../core/key-derivation-and-encryption.ts'
import { ServiceError } from '../../core/errors.ts'
import { parseBearerToken } from './request-api-key-extraction.ts'

/** Access to the operator's routes, by token or from this machine. */

/** Headers that proxies, load balancers and content networks add. */
export const PROXY_HEADER =
  /^(.*forward.*|.*-ip|via|cdn-loop|x-remote-addr|x-original-.*|x-proxy.*|x-envoy-.*|x-azure-.*|x-appengine-.*|x-amzn?-.*|cf-.*|fly-.*)$/
const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i

/**
 * Admits the operator: by the token where one is set, else by a direct connection from this machine. Behind a
 * local proxy every address is the loopback, so proxy headers are refused. A page in a local browser may
 * resolve its own name to the loopback (DNS rebinding), so the Host must be a loopback name. Throws
 * `unauthenticated`, or `not_found` where no token is set.
 */
export function assertOperatorAccess(
  request: FastifyRequest,
  token: { reveal(): string } | null,
): void {
  const { headers, socket } = request
  if (token !== null) {
    const given = parseBearerToken(headers.authorization)
    if (given !== null && timingSafeTextEqual(given, token.reveal())) return
    throw new ServiceError('unauthenticated', { detail: 'The operator token is required.' })
  }
  const proxied = Object.keys(headers).some((name) => PROXY_HEADER.test(name))
  const here = LOOPBACK_HOST.test(headers.host ?? '') && isLoopback(socket.remoteAddress ?? '')
  if (proxied || !here) throw new ServiceError('not_found')
}

const isLoopback = (address: string): boolean =>
  ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback'
