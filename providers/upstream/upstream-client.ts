import type { Static, TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import type { Clock } from '../../core/clock.ts'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type {
  OperatorConfiguredUrlHttpClient,
  OperatorConfiguredUrlHttpReply,
} from '../egress/unguarded-provider-http-client.ts'
import { createUnguardedProviderHttpClient } from '../egress/unguarded-provider-http-client.ts'
import type { DnsAddressResolver } from '../egress/dns-resolver.ts'
import { CircuitBreaker } from './circuit-breaker.ts'

/** HTTP client of JSON APIs configured by the operator. */

export interface UpstreamRequest<T extends TSchema> {
  /** Name of the breaker and the bulkhead. */
  readonly provider: string
  /** Capacity of a provider is shared by owner. Absent for the station itself. */
  readonly owner?: string
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  /** JSON to post; a GET without it. */
  readonly body?: unknown
  readonly schema: T
  readonly timeoutMs?: number
  readonly maxBytes?: number
  readonly signal: AbortSignal
}

export interface UpstreamReply<T> {
  readonly data: T
  /** `fixture` when the response comes from a stand-in that declares it. */
  readonly mode: 'live' | 'fixture'
}

/** Requests to configured providers that answer with JSON. */
export interface UpstreamClient {
  /**
   * Rejects with `upstream_timeout`, `upstream_rate_limited`, `upstream_schema`, or `upstream_error`, with
   * `upstream_status` when the provider answered.
   */
  json<T extends TSchema>(request: UpstreamRequest<T>): Promise<UpstreamReply<Static<T>>>
}

export interface ClosableUpstreamClient extends UpstreamClient {
  close(): Promise<void>
}

export interface UpstreamClientSettings {
  readonly clock: Clock
  readonly userAgent: string
  readonly resolve?: DnsAddressResolver
  /** Concurrent requests per provider. */
  readonly width?: number
}

/** The owner of shared requests, such as prices. */
const STATION_OWNER = 'station'
const FIXTURE_HEADER = 'x-fixture'
const DEFAULT_RETRY_MS = 30 * SECOND
const UPSTREAM_TIMEOUT_MS = 4 * SECOND
const MAX_UPSTREAM_BYTES = 4 * 1024 * 1024

export function createUpstreamClient(settings: UpstreamClientSettings): ClosableUpstreamClient {
  const { clock, userAgent, width = 16 } = settings
  const direct = createUnguardedProviderHttpClient(settings.resolve, width)
  const breakers = new Map<string, CircuitBreaker>()
  const validators = new WeakMap<TSchema, Validator>()

  const breakerOf = (provider: string): CircuitBreaker => {
    const breaker = breakers.get(provider) ?? new CircuitBreaker(provider, clock, width)
    breakers.set(provider, breaker)
    return breaker
  }
  const fits = (schema: TSchema, value: unknown): boolean => {
    const validator = validators.get(schema) ?? Compile(schema)
    validators.set(schema, validator)
    return validator.Check(value)
  }

  return {
    async json<T extends TSchema>(request: UpstreamRequest<T>) {
      const breaker = breakerOf(request.provider)
      const leave = await breaker.acquire(request.owner ?? STATION_OWNER, request.signal)
      try {
        const reply = await requestUpstream(request, direct, userAgent)
        const data = parse(request.provider, reply.text)
        if (!fits(request.schema, data)) throw upstreamSchemaError(request.provider)
        breaker.recordSuccess()
        const mode = FIXTURE_HEADER in reply.headers ? 'fixture' : 'live'
        return { data: data as Static<T>, mode }
      } catch (error) {
        recordUpstreamOutcome(breaker, error, request.signal, clock.now())
        throw toPublicUpstreamError(error, clock.now())
      } finally {
        leave()
      }
    },
    close: () => direct.close(),
  }
}

async function requestUpstream(
  request: UpstreamRequest<TSchema>,
  direct: OperatorConfiguredUrlHttpClient,
  userAgent: string,
) {
  const { provider, url, timeoutMs = UPSTREAM_TIMEOUT_MS, maxBytes = MAX_UPSTREAM_BYTES } = request
  const timeout = AbortSignal.timeout(timeoutMs)
  const signal = AbortSignal.any([request.signal, timeout])
  const body = request.body === undefined ? undefined : JSON.stringify(request.body)
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const accept = { accept: 'application/json', ...type }
  const headers = { ...accept, ...request.headers, 'user-agent': userAgent }
  try {
    const reply = await direct.request({
      url,
      headers,
      body,
      maxBytes,
      signal,
      details: { provider },
    })
    if (reply.status < 200 || reply.status > 299) throw toUpstreamError(provider, reply)
    return reply
  } catch (error) {
    if (request.signal.aborted) throw request.signal.reason
    if (timeout.aborted) throw new ServiceError('upstream_timeout', { provider }, error)
    throw error
  }
}

/** A 429 or 503 with a retry delay, which is parsed later with the clock. */
class LimitedByProvider extends Error {
  readonly provider: string
  readonly retryAfter: string | null
  constructor(provider: string, retryAfter: string | null) {
    super('limited by the provider')
    this.provider = provider
    this.retryAfter = retryAfter
  }
}

function toUpstreamError(
  provider: string,
  { status, headers }: OperatorConfiguredUrlHttpReply,
): Error {
  const retryAfter = headers['retry-after'] ?? null
  if (status === 429 || (status === 503 && retryAfter !== null)) {
    return new LimitedByProvider(provider, retryAfter)
  }
  return new ServiceError('upstream_error', { provider, upstream_status: status })
}

function parse(provider: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new ServiceError('upstream_schema', { provider, detail: 'not JSON' }, cause)
  }
}

const upstreamSchemaError = (provider: string) => new ServiceError('upstream_schema', { provider })

/**
 * Records the outcome, except client errors (4xx) and callers that disconnect, which say nothing about the
 * provider.
 */
function recordUpstreamOutcome(
  breaker: CircuitBreaker,
  error: unknown,
  signal: AbortSignal,
  now: number,
): void {
  if (error instanceof LimitedByProvider)
    return breaker.recordRateLimit(parseRetryAfterMs(error.retryAfter, now))
  if (signal.aborted) return
  const status = error instanceof ServiceError ? error.details['upstream_status'] : undefined
  if (typeof status === 'number' && status >= 400 && status < 500) return breaker.recordSuccess()
  breaker.recordFailure()
}

/** Parses seconds or an HTTP date. */
export function parseRetryAfterMs(header: string | null, now: number): number {
  if (header === null) return DEFAULT_RETRY_MS
  if (/^\d{1,9}$/.test(header.trim())) return Math.max(1, Number(header)) * SECOND
  const at = Date.parse(header)
  return Number.isNaN(at) ? DEFAULT_RETRY_MS : Math.max(SECOND, at - now)
}

const toPublicUpstreamError = (error: unknown, now: number): unknown =>
  error instanceof LimitedByProvider
    ? new ServiceError('upstream_rate_limited', {
        provider: error.provider,
        retry_after: Math.ceil(parseRetryAfterMs(error.retryAfter, now) / SECOND),
      })
    : error
