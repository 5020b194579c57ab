import type {} from '@fastify/swagger'
import type { Caller } from '../calls/call-types.ts'
import type { TokenBucketClass } from '../core/limits.ts'
import type { ApiKeyRecord, ApiKeyScope } from '../persistence/agents/api-key-store.ts'
import type { ApiKeyVerifier } from './auth/api-key-verifier.ts'
import type { RequestRateLimiter } from './plugins/rate-limits.ts'
import type { HttpServices } from './services.ts'

/** Who may call a route: anybody, anybody or a key, a key only, or the operator. */
export type RouteAuth = 'none' | 'optional' | 'key' | 'operator'

/**
 * What a key bound to a Backpack may do with a route. `pays`: its commit asks the Backpack, as every
 * charge does. `acts`: it changes something, while the Backpack is active. `reads`: it shows something,
 * also after the Backpack has ended.
 */
export type BoundKeyAccess = 'pays' | 'acts' | 'reads'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Required on every route: one without it is refused at start. */
    auth?: RouteAuth
    /** What a key must be allowed to, where one is used. */
    scope?: ApiKeyScope
    /** The bucket a request draws on; by its method when absent. */
    rate?: TokenBucketClass | 'none'
    /** What a bound key may do here; absent: nothing, and it is refused. */
    bound?: BoundKeyAccess
    /** A bad key is not refused here: the handler is told of it (decision 8). */
    passBadKey?: true
    /** A page for people, a feed or an image: links to it carry parameters of campaigns and mailers. */
    ignoresUnknownQuery?: true
    /** The answer holds a secret: it is sealed before it is kept for repetitions. */
    secret?: true
  }
  interface FastifyInstance {
    services: HttpServices
    keyRing: ApiKeyVerifier
    limits: RequestRateLimiter
    /** Compiles the schemas that nobody has used yet, a little at a time. */
    warm(): Promise<void>
  }
  interface FastifyRequest {
    caller: Caller
    /** The key of the request, once it is known to be good. */
    apiKey: ApiKeyRecord | null
    /** The caller's agent; the empty string on routes that need no key and got none. */
    agentId: string
    /** The size of the body as it was received. */
    bodyBytes: number
    /** The body as it was received. */
    rawBody: Buffer
  }
}
