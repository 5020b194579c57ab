import type {
  FastifyContextConfig,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RouteOptions,
} from 'fastify'
import ipaddr from 'ipaddr.js'
import type { Caller } from '../../calls/call-request-and-reply-types.ts'
import { hmacSha256 } from '../../core/key-derivation-and-encryption.ts'
import { ServiceError } from '../../core/errors.ts'
import {
  toApiKeySpendingLimits,
  type ApiKeyRecord,
} from '../../persistence/agents/api-key-store.ts'
import {
  assertKeyBackpackBinding,
  boundBackpackIdOf,
} from '../auth/request-backpack-and-key-binding-check.ts'
import { createClientAddressReader } from '../auth/client-address.ts'
import { extractApiKey } from '../auth/request-api-key-extraction.ts'
import { hasKeyScope, hasSpendingCap } from '../auth/api-key-permissions.ts'
import { createApiKeyVerifier } from '../auth/api-key-verifier.ts'
import { createOwnerSessionAccess } from '../auth/owner-session-access.ts'
import { assertAgentNotFrozen } from '../../actors/commands/agent-freeze-commands.ts'
import { assertOperatorAccess } from '../auth/operator-access.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'
import type { RouteAuth } from '../fastify-augmentation.ts'
import type { RequestHook } from './request-hooks.ts'

/** Authentication and authorisation of every request. */

const CREDENTIAL_HEADERS = 'X-API-Key, Authorization, Payment-Signature, X-Payment'
const ROUTE_AUTHS: readonly RouteAuth[] = ['none', 'optional', 'key', 'operator']

/**
 * Returns what identifies the caller before anything else is parsed. This authenticates and `createAuthorisation`
 * decides; the rate limits run between them, so that refused callers count too.
 */
export function createAuthentication(app: FastifyInstance, services: HttpServices): RequestHook {
  const owners = createOwnerSessionAccess({
    keys: services.keys,
    sessions: services.ownerSessions,
    mail: services.owners.mail,
    publicUrl: services.config.publicUrl,
    clock: services.clock,
  })
  const verifier = createApiKeyVerifier(services.keys, services.plane.bus, services.clock)
  app.decorate('keyRing', verifier)
  app.decorate('ownerAccess', owners)
  app.decorateRequest('caller')
  app.decorateRequest('apiKey', null)
  app.decorateRequest('agentId', '')
  app.addHook('onClose', async () => verifier.close())
  const addressOf = createClientAddressReader(services.config.trustProxy)
  const pseudonym = createVisitorIdCache(services.config.visitorKey)
  app.addHook('onRoute', assertRouteAuth)
  const isOperatorToken = ({ headers, routeOptions }: FastifyRequest): boolean =>
    routeOptions.config.operatorToken === true &&
    services.inspectorAccess.isOperator({ headers: { authorization: headers.authorization } })
  return (request: FastifyRequest, reply: FastifyReply) => {
    const { visitorId, siteId } = pseudonym(addressOf(request))
    request.caller = { agentId: null, key: null, keyStatus: 'none', visitorId, siteId }
    const { auth } = request.routeOptions.config
    if (auth !== 'key' && auth !== 'optional') return
    // Shared caches could serve one caller's response to another.
    reply.header('cache-control', 'private, no-store').header('vary', CREDENTIAL_HEADERS)
    const secret = extractApiKey(request)
    if (secret === null || isOperatorToken(request)) {
      const { ownerSession } = request.routeOptions.config
      if (ownerSession !== true || !owners.isSession(request)) return
      return owners.keyOf(request).then((key) => identifyCaller(request, key))
    }
    // Without a promise where the key is cached: every request passes here.
    const cached = verifier.verifyCached(secret)
    if (cached !== undefined) return identifyCaller(request, cached)
    return verifier.verify(secret).then((key) => identifyCaller(request, key))
  }
}

/** Sets the caller of a request to the agent of its key; null for a key that does not work. */
function identifyCaller(request: FastifyRequest, key: ApiKeyRecord | null): void {
  const { visitorId, siteId } = request.caller
  if (key === null) {
    request.caller = { agentId: null, key: null, keyStatus: 'invalid', visitorId, siteId }
    return
  }
  request.apiKey = key
  request.agentId = key.agentId
  const limits = toApiKeySpendingLimits(key)
  request.caller = { agentId: key.agentId, key: limits, keyStatus: 'valid', visitorId, siteId }
}

/** Returns what throws 401 without a working key where one is required, and 403 without the scope. */
export const createAuthorisation =
  (services: HttpServices): RequestHook =>
  (request) => {
    assertKeyStatus(request, services)
    return authoriseKey(request, services)
  }

/** A key and the request that uses it. */
type KeyUse = Pick<
  FastifyRequest,
  'apiKey' | 'agentId' | 'headers' | 'method' | 'params' | 'routeOptions'
>

function authoriseKey(use: KeyUse, services: HttpServices): void | Promise<void> {
  if (boundBackpackIdOf(use) !== null || isRefusedToFrozen(use))
    return authoriseByAggregate(use, services)
  assertKeyScope(use)
  return assertCapAllows(use)
}

/** What only the agent's aggregate knows: whether a Backpack or the agent itself may act. */
async function authoriseByAggregate(use: KeyUse, services: HttpServices): Promise<void> {
  await assertKeyBackpackBinding(use, services)
  assertKeyScope(use)
  assertCapAllows(use)
  if (isRefusedToFrozen(use)) await assertAgentNotFrozen(services.actors, use.agentId)
}

/**
 * Throws unless a key that a request has in its body is one of the agent, and may use the route as the key of a
 * header may (decision 470).
 */
export async function authoriseBodyKey(
  { method, routeOptions, server }: FastifyRequest,
  agentId: string,
  [field, secret]: readonly [field: string, secret: string | undefined],
): Promise<void> {
  const apiKey = secret === undefined ? null : await server.keyRing.verify(secret)
  if (apiKey?.agentId !== agentId)
    throw new ServiceError('insufficient_scope', {
      detail: `The agent must consent: send one of its keys as ${field}.`,
      scope: routeOptions.config.scope,
    })
  // Headers and path are for the key of the request.
  const use = { apiKey, agentId, headers: {}, params: {}, method, routeOptions }
  try {
    await authoriseKey(use, server.services)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    throw new ServiceError(error.code, {
      ...error.details,
      detail: `${field}: ${error.message}`,
    })
  }
}

/** Whether a frozen agent may not use the route, and nothing else refuses it (decision 255). */
function isRefusedToFrozen({ apiKey, method, routeOptions }: KeyUse): boolean {
  if (apiKey === null || method === 'GET' || method === 'HEAD') return false
  const { bound, servesFrozen } = routeOptions.config
  return bound !== 'pays' && servesFrozen !== true
}

function assertKeyStatus(request: FastifyRequest, { config }: HttpServices): void {
  const { auth, passBadKey } = request.routeOptions.config
  if (auth === 'operator') return assertOperatorAccess(request, config.operatorToken)
  const { keyStatus } = request.caller
  const isRefused = keyStatus === 'invalid' && passBadKey !== true
  if (isRefused || (auth === 'key' && keyStatus !== 'valid'))
    throw new ServiceError('unauthenticated', { key_status: keyStatus })
}

function assertKeyScope({ apiKey, routeOptions }: KeyUse): void {
  const { scope, auth } = routeOptions.config
  if (auth === 'operator' || apiKey === null || scope === undefined) return
  if (!hasKeyScope(apiKey, scope))
    throw new ServiceError('insufficient_scope', { scope, scopes: apiKey.scopes })
}

/** Whether a route refuses keys that have a cap and are not bound. */
export const refusesCappedKey = (method: string, config: FastifyContextConfig): boolean => {
  const { scope, capped } = config
  const isManaging = scope === 'funds' || scope === 'keys' || scope === 'backpacks'
  return isManaging && capped !== true && method !== 'GET' && method !== 'HEAD'
}

function assertCapAllows(use: KeyUse): void {
  const { method, routeOptions } = use
  if (boundBackpackIdOf(use) !== null) return
  if (!refusesCappedKey(method, routeOptions.config)) return
  assertUncappedKey(use, `use ${method} ${(routeOptions.url ?? '').replace(/:(\w+)/g, '{$1}')}`)
}

/** Throws at start for a route without a declared audience, or that takes a key without a scope. */
function assertRouteAuth({ method, url, config }: RouteOptions): void {
  if (config?.auth === undefined || !ROUTE_AUTHS.includes(config.auth))
    throw new Error(`${String(method)} ${url} states no config.auth`)
  if (config.auth === 'key' && config.scope === undefined)
    throw new Error(`${String(method)} ${url} states no config.scope`)
}

/** Throws for a capped key where the cap does not count the write (decision 62). */
export function assertUncappedKey(
  { apiKey }: Pick<FastifyRequest, 'apiKey'>,
  action: string,
): void {
  if (apiKey === null || !hasSpendingCap(apiKey)) return
  const detail = `A key with a spending cap cannot ${action}.`
  throw new ServiceError('insufficient_scope', { detail })
}

/** Returns a pseudonym of an address. IPv6 addresses count by /64, since one household owns all of it. */
export function toPseudonymousVisitorId(address: string | undefined, key: Buffer): string {
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
    const visitor = {
      visitorId: toPseudonymousVisitorId(address, key),
      siteId: toIpv6SiteId(address, key),
    }
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
