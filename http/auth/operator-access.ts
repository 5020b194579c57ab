import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'
import { timingSafeTextEqual } from '../../core/crypto.ts'
import { ServiceError } from '../../core/errors.ts'
import { parseBearerToken } from './credentials.ts'

/** Headers that proxies, load balancers and content networks add to what they pass on. */
const PROXY_HEADER =
  /^(.*forward.*|.*-ip|via|cdn-loop|x-remote-addr|x-original-.*|x-proxy.*|x-envoy-.*|x-azure-.*|x-appengine-.*|x-amzn?-.*|cf-.*|fly-.*)$/
const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i

/**
 * Lets nobody pass but the operator: by the token where one is set, else by coming straight from this
 * machine. Behind a proxy here every address is its loopback, so no header of one may be there; and a page
 * in a browser here may have pointed its own name at the loopback, so the Host has to be one of it.
 * Throws `unauthenticated` or, where there is no token, `not_found`.
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
