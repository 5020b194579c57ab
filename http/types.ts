import type {} from '@fastify/swagger'
import type { Caller } from '../calls/calls.ts'
import type { RateClass } from '../core/limits.ts'
import type { KeyRecord, Scope } from '../persistence/keys.ts'
import type { KeyRing } from './key-ring.ts'
import type { Limits } from './plugins/rate-limits.ts'
import type { Services } from './services.ts'

/** Who may call a route: anybody, anybody or a key, a key only, or the operator. */
export type Auth = 'none' | 'optional' | 'key' | 'operator'

/**
 * What a key bound to a Backpack may do with a route. `pays`: its commit asks the Backpack, as every
 * charge does. `acts`: it changes something, while the Backpack is active. `reads`: it shows something,
 * also after the Backpack has ended.
 */
export type Bound = 'pays' | 'acts' | 'reads'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Required on every route: one without it is refused at start. */
    auth?: Auth
    /** What a key must be allowed to, where one is used. */
    scope?: Scope
    /** The bucket a request draws on; by its method when absent. */
    rate?: RateClass | 'none'
    /** What a bound key may do here; absent: nothing, and it is refused. */
    bound?: Bound
    /** A bad key is not refused here: the handler is told of it (decision 8). */
    passBadKey?: true
    /** A page for people, a feed or an image: links to it carry parameters of campaigns and mailers. */
    ignoresUnknownQuery?: true
    /** The answer holds a secret: it is sealed before it is kept for repetitions. */
    secret?: true
  }
  interface FastifyInstance {
    services: Services
    keyRing: KeyRing
    limits: Limits
    /** Compiles the schemas that nobody has used yet, a little at a time. */
    warm(): Promise<void>
  }
  interface FastifyRequest {
    caller: Caller
    /** The key of the request, once it is known to be good. */
    apiKey: KeyRecord | null
    /** The caller's agent; the empty string on routes that need no key and got none. */
    agentId: string
    /** The size of the body as it was received. */
    bodyBytes: number
    /** The body as it was received. */
    rawBody: Buffer
  }
}
