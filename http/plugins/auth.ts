import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import ipaddr from 'ipaddr.js'
import type { Caller } from '../../calls/call-request-and-reply-types.ts'
import { hmacSha256 } from '../../core/key-derivation-and-encryption.ts'
import { ServiceError } from '../../core/errors.ts'
import { toApiKeySpendingLimits } from '../../persistence/agents/api-key-store.ts'
import { assertKeyBinding } from '../auth/backpack-binding.ts'
import { extractApiKey } from '../auth/request-api-key-extraction.ts'
import { hasKeyScope, hasSpendingCap } from '../auth/key-permissions.ts'
import { createApiKeyVerifier } from '../auth/api-key-verifier.ts'
import { assertOperatorAccess } from '../auth/operator-access.ts'
import type { HttpServices } from '../http-services.ts'
import type { RouteAuth } from '../fastify-augmentation.ts'

/** Authentication and authorisation hooks of every route. */

const CREDENTIAL_HEADERS = 'X-API-Key, Authorization, Payment-Signature, X-Payment'
const ROUTE_AUTHS: readonly RouteAuth[] = ['none', 'optional', 'key', 'operator']

/**
 * Identifies the caller before anything else is parsed. `identify` authenticates and `authorise` decides; the
 * rate limits run between them, so that refused callers count too.
 */
export function installAuthentication(app: FastifyInstance, services: HttpServices): void {
  const verifier = createApiKeyVerifier(services.keys, services.plane.bus, services.clock)
  app.decorate('keyRing', verifier)
  app.decorateRequest('caller')
  app.decorateRequest('apiKey', null)
  app.decorateRequest('agentId', '')
  app.addHook('onClose', async () => verifier.close())
  const pseudonym = createVisitorIdCache(services.config.visitorKey)
  app.addHook('onRoute', assertRouteAuth)
  app.addHook('onRequest', async (request, reply) => {
    const visitor = pseudonym(request.ip)
    const anonymous: Caller = { agentId: null, key: null, keyStatus: 'none', ...visitor }
    request.caller = anonymous
    const { auth } = request.routeOptions.config
    if (auth !== 'key' && auth !== 'optional') return
    // Shared caches could serve one caller's response to another.
    reply.header('cache-control', 'private, no-store').header('vary', CREDENTIAL_HEADERS)
    const secret = extractApiKey(request)
    if (secret === null) return
    const key = await verifier.verify(secret)
    if (key === null) {
      request.caller = { ...anonymous, keyStatus: 'invalid' }
      return
    }
    request.apiKey = key
    request.agentId = key.agentId
    request.caller = {
      agentId: key.agentId,
      key: toApiKeySpendingLimits(key),
      keyStatus: 'valid',
      ...visitor,
    }
  })
}

/** Throws 401 without a working key where one is required, and 403 without the scope. */
export function installAuthorisation(app: FastifyInstance, services: HttpServices): void {
  app.addHook('onRequest', async (request) => {
    const { auth, scope, passBadKey } = request.routeOptions.config
    if (auth === 'operator') return assertOperatorAccess(request, services.config.operatorToken)
    const { keyStatus } = request.caller
    if (auth === 'key' && keyStatus !== 'valid') {
      throw new ServiceError('unauthenticated', { key_status: keyStatus })
    }
    if (keyStatus === 'invalid' && passBadKey !== true) {
      throw new ServiceError('unauthenticated', { key_status: keyStatus })
    }
    await assertKeyBinding(request, services)
    if (request.apiKey !== null && scope !== undefined && !hasKeyScope(request.apiKey, scope)) {
      throw new ServiceError('insufficient_scope', { scope, scopes: request.apiKey.scopes })
    }
  })
}

/** Throws at start for a route without a declared audience. */
function assertRouteAuth({ method, url, config, schema }: RouteOptions): void {
  if (schema?.hide === true && url.startsWith('/docs')) return
  if (config?.auth !== undefined && ROUTE_AUTHS.includes(config.auth)) return
  throw new Error(`${String(method)} ${url} states no config.auth`)
}

/** Throws for a capped key where the cap does not count the write (decision 62). */
export function assertUncappedKey({ apiKey }: FastifyRequest, action: string): void {
  if (apiKey === null || !hasSpendingCap(apiKey)) return
  const detail = `A key with a spending cap cannot ${action}.`
  throw new ServiceError('insufficient_scope', { detail })
}

/** Returns a pseudonym of an address. IPv6 addresses count by /64, since one household owns all of it. */
export function toVisitorId(address: string | undefined, key: Buffer): string {
  return hmacSha256(key, toIpNetwork(address ?? '')).toString('hex')
}

/** Returns a pseudonym of the /48 of an IPv6 address; null for any other address (decision 155). */
export function toIpv6SiteId(address: string | undefined, key: Buffer): string | null {
  const prefix = ipv6Prefix(address ?? '', 6)
  return prefix === null ? null : hmacSha256(key, `site ${prefix}`).toString('hex')
}

const MAX_VISITORS = 10_000

/** Caches the pseudonyms of recent addresses, since most requests come from few. */
function createVisitorIdCache(
  key: Buffer,
): (address: string) => Pick<Caller, 'visitorId' | 'siteId'> {
  const known = new Map<string, Pick<Caller, 'visitorId' | 'siteId'>>()
  return (address) => {
    const cached = known.get(address)
    if (cached !== undefined) return cached
    if (known.size >= MAX_VISITORS) known.clear()
    const visitor = { visitorId: toVisitorId(address, key), siteId: toIpv6SiteId(address, key) }
    known.set(address, visitor)
    return visitor
  }
}

function toIpNetwork(address: string): string {
  if (!ipaddr.isValid(address)) return address
  return ipv6Prefix(address, 8) ?? ipaddr.process(address).toString()
}

/** Returns the first bytes of an IPv6 address; null for IPv4 and IPv4-mapped addresses. */
function ipv6Prefix(address: string, bytes: number): string | null {
  if (!ipaddr.isValid(address)) return null
  const parsed = ipaddr.process(address)
  return parsed.kind() === 'ipv4' ? null : parsed.toByteArray().slice(0, bytes).join('.')
}
