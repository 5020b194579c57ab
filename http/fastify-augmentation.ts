import type {} from '@fastify/swagger'
import type { Caller } from '../calls/call-request-and-reply-types.ts'
import type { TokenBucketClass } from '../core/limits.ts'
import type { JsonTextMarks } from '../core/validation/safe-json.ts'
import type { ApiKeyRecord, ApiKeyScope } from '../persistence/agents/api-key-store.ts'
import type { ApiKeyVerifier } from './auth/api-key-verifier.ts'
import type { OwnerSessionAccess } from './auth/owner-session-access.ts'
import type { RequestRateLimiter } from './plugins/http-request-rate-limits.ts'
import type { HttpServices } from './http-config-and-service-types.ts'

/**
 * Who may call a route. `none`: anybody; `optional`: anybody, with or without a key; `key`: a key only;
 * `operator`: the operator.
 */
export type RouteAuth = 'none' | 'optional' | 'key' | 'operator'

/**
 * What a key bound to a Backpack may do with a route. `pays`: the commit checks the Backpack, as every charge
 * does. `acts`: writes while the Backpack is active. `reads`: reads, also after the Backpack has ended.
 */
export type BackpackBoundKeyRouteAccess = 'pays' | 'acts' | 'reads'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Required on every route; the server does not start without it. */
    auth?: RouteAuth
    /** The scope that a key needs, where one is used. */
    scope?: ApiKeyScope
    /** The token bucket of the route; by HTTP method when absent. */
    rate?: TokenBucketClass | 'none'
    /** What a bound key may do here; refused when absent. */
    bound?: BackpackBoundKeyRouteAccess
    /**
     * Writes of an unbound key with a spending cap: its cap counts what is spent here, or nothing is. Without it such
     * a key calls tools, and manages its tasks and messages, but no funds, keys or Backpacks (decision 62).
     */
    capped?: true
    /**
     * Serves a frozen agent as well: its owner manages it here. Without it, writes are refused unless they are
     * paid (`bound: 'pays'`) or the handler calls tools: there the agent's machine refuses.
     */
    servesFrozen?: true
    /** A session of the agent's owner may call it from a page of this station, beside a key. */
    ownerSession?: true
    /** The handler checks the binding of the key itself, so that its protocol can report a violation. */
    checksBinding?: true
    /** Runs tools although its rate is another: they have deadlines of their own. */
    runsTools?: true
    /** Sells tool calls: the call itself refuses a bad key, or offers its price (decision 8). */
    passBadKey?: true
    /** Takes the operator's token as well, which is no API key. */
    operatorToken?: true
    /** For pages, feeds and images: their links carry parameters of campaigns and mailers. */
    ignoresUnknownQuery?: true
    /**
     * Bytes that a write of an agent keeps beside its body; `LIMITS.keptBytesPerWrite` without it. 0 for one that
     * stops something, is paid, or counts by itself (decision 391).
     */
    keeps?: number
    /** The response holds a secret: it is encrypted before it is stored for replays. */
    secret?: true
  }
  interface FastifyInstance {
    services: HttpServices
    keyRing: ApiKeyVerifier
    ownerAccess: OwnerSessionAccess
    limits: RequestRateLimiter
    /** Compiles the schemas that are not compiled yet, with a pause after each. */
    warm(pauseMs?: number): Promise<void>
  }
  interface FastifyRequest {
    caller: Caller
    /** The key of the request, once it is verified. */
    apiKey: ApiKeyRecord | null
    /** The caller's agent; an empty string when the request has no key. */
    agentId: string
    /** Size of the body as received. */
    bodyBytes: number
    /** The body as received. */
    rawBody: Buffer
    /** Why the body could not be read. */
    bodyError: Error | null
    /** What the text of the body says about unsafe values; null without a body. */
    bodyMarks: JsonTextMarks | null
  }
}
