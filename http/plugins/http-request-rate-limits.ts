import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { addressBounds, callerBounds, type CountedCaller } from '../../core/address-bounds.ts'
import { HOUR, MINUTE, SECOND } from '../../core/clock.ts'
import { rateLimitError } from '../../core/rate-limit-error.ts'
import { LIMITS, TOKEN_BUCKET_RATES, type TokenBucketClass } from '../../core/limits.ts'
import type { OnboardingAdmission } from '../../payments/limits/onboarding-rate-limit.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'
import { hasKeyScope } from '../auth/api-key-permissions.ts'
import type { RequestHook } from './request-hooks.ts'

/** Request rate limits, counted in Redis and per node while Redis is down. */

const REDIS_TIMEOUT_MS = 250
/** After a timeout Redis is skipped this long, so that not every request waits for it. */
const REDIS_COOLDOWN_MS = 1_000
/** What each bucket counts, for error details. */
const BUCKET_DESCRIPTIONS: Readonly<Record<TokenBucketClass | AddressBucketName, string>> = {
  refuel: 'calls of tools',
  write: 'writing requests',
  read: 'reading requests',
  plan: 'plans',
  crew: 'crews',
  cancel: 'calls taken back',
  manage: 'requests to manage keys and Backpacks',
  hive: 'searches of the public Hive',
  probe: 'probes of addresses',
}

/** Buckets that count by address, whether or not a key is sent. */
type AddressBucketName = 'hive' | 'probe'

/** Counts requests by agent over all its keys, or by address without a key (decisions 14 and 489). */
export interface RequestRateLimiter {
  /** Takes `points` from a bucket of the caller; throws 429 when it is empty. */
  consume(
    request: FastifyRequest,
    reply: FastifyReply,
    rate: TokenBucketClass,
    points: number,
  ): Promise<void>
  /** Counts a body whose length nobody stated; throws 429 when the bucket of its request is empty. */
  consumeBody(request: FastifyRequest, bytes: number): Promise<void>
  /** Takes one point from an agent's bucket, without rate limit headers. */
  consumeForAgent(agentId: string, rate: TokenBucketClass): Promise<void>
  /** Returns an unused point to an agent's bucket. */
  refundForAgent(agentId: string, rate: TokenBucketClass): Promise<void>
  /**
   * Admits new agents while the hourly limit of their address has room (decision 55). Returns null without
   * limits.
   */
  admitOnboarding(
    request: FastifyRequest,
    reply: FastifyReply,
    agents: number,
    isBatch: boolean,
  ): Promise<OnboardingAdmission | null>
  /** Counts a search of the public Hive, or a probe of a server, against the limit of the caller's address. */
  consumeForAddress(
    request: FastifyRequest,
    reply: FastifyReply,
    bucket: AddressBucketName,
  ): Promise<void>
}

interface RateBucket {
  readonly name: keyof typeof BUCKET_DESCRIPTIONS
  readonly size: number
  readonly seconds: number
  consume(owner: string, points: number): Promise<RateLimiterRes>
  refund(owner: string): Promise<void>
}

/**
 * Installs buckets of `burst` requests, each full again `burst / perSecond` seconds after the first request that drew
 * on it; returns what counts each request.
 */
export function installRateLimits(app: FastifyInstance, services: HttpServices): RequestHook {
  const { config, newcomers, plane } = services
  const withTimeout = createRedisTimeout()
  const buckets = Object.fromEntries(
    Object.entries(TOKEN_BUCKET_RATES).map(([name, { perSecond, burst }]) => [
      name,
      createBucket(name as TokenBucketClass, burst, burst / perSecond, plane.redis, withTimeout),
    ]),
  ) as Record<TokenBucketClass, RateBucket>
  const addressBucket = (name: AddressBucketName, size: number, seconds: number) =>
    createBucket(name, size, seconds, plane.redis, withTimeout)
  const addressBuckets: Record<AddressBucketName, RateBucket> = {
    hive: addressBucket('hive', LIMITS.hiveSearchesPerHour, HOUR / SECOND),
    probe: addressBucket('probe', LIMITS.probesPerMinute, MINUTE / SECOND),
  }

  const limits: RequestRateLimiter = {
    async consume(request, reply, rate, points) {
      if (!config.rateLimits) return
      const { caller } = request
      const drawn = await draw(buckets[rate], callerBounds(caller), points)
      setBucketHeaders(reply, drawn, caller.agentId === null ? 'visitor' : 'agent')
      assertDrawn(drawn)
    },
    async consumeBody(request, bytes) {
      const rate = rateClassOf(request)
      const points = pointsOf(bytes, rate) - 1
      if (!config.rateLimits || request.is404 || rate === 'none' || points < 1) return
      assertDrawn(await draw(buckets[rate], callerBounds(request.caller), points))
    },
    async consumeForAgent(agentId, rate) {
      if (!config.rateLimits) return
      assertDrawn(await draw(buckets[rate], [{ id: agentId, factor: 1, per: 'agent' }], 1))
    },
    async refundForAgent(agentId, rate) {
      if (config.rateLimits) await buckets[rate].refund(agentId)
    },
    async admitOnboarding({ caller }, reply, agents, isBatch) {
      if (!config.rateLimits) return null
      const admitted = await newcomers.admit(caller, agents, isBatch)
      const seconds = Math.max(1, Math.ceil((admitted.resetsAt - services.clock.now()) / 1_000))
      setRateLimitHeaders(
        reply,
        'onboard',
        { size: newcomers.perHour, seconds: HOUR / SECOND },
        admitted.left,
        seconds,
      )
      return admitted
    },
    async consumeForAddress(request, reply, name) {
      if (!config.rateLimits) return
      const drawn = await draw(addressBuckets[name], addressBounds(request.caller), 1)
      setBucketHeaders(reply, drawn, name)
      assertDrawn(drawn)
    },
  }
  app.decorate('limits', limits)
  return (request, reply) => {
    if (!config.rateLimits || request.is404) return
    const rate = rateClassOf(request)
    if (rate === 'none') return
    const bytes = Number(request.headers['content-length'] ?? 0)
    return limits.consume(request, reply, rate, pointsOf(bytes, rate))
  }
}

/** A request counts once for each started `LIMITS.countedBodyBytes` of its body, at most as a whole bucket. */
const pointsOf = (bytes: number, rate: TokenBucketClass | 'none'): number => {
  const most = rate === 'none' ? 1 : TOKEN_BUCKET_RATES[rate].burst
  return Math.min(most, Math.max(1, Math.ceil(bytes / LIMITS.countedBodyBytes)))
}

/**
 * Returns the bucket of a request. Only a key that passes authorisation draws on `manage`: a bound key, or
 * one without the scope, could otherwise use up what its owner needs to revoke it.
 */
function rateClassOf({ method, apiKey, routeOptions }: FastifyRequest): TokenBucketClass | 'none' {
  const { rate, scope } = routeOptions.config
  const usual = method === 'GET' ? 'read' : 'write'
  if (rate !== 'manage') return rate ?? usual
  const mayManage =
    apiKey !== null &&
    apiKey.backpackId === null &&
    (scope === undefined || hasKeyScope(apiKey, scope))
  return mayManage ? 'manage' : usual
}

function createBucket(
  name: RateBucket['name'],
  size: number,
  seconds: number,
  redis: HttpServices['plane']['redis'],
  withTimeout: WithRedisTimeout,
): RateBucket {
  const settings = { points: size, duration: seconds, keyPrefix: `gas:rate:${name}` }
  const local = new RateLimiterMemory(settings)
  const shared =
    redis === null
      ? null
      : new RateLimiterRedis({ ...settings, storeClient: redis, rejectIfRedisNotReady: true })
  return {
    name,
    size,
    seconds,
    async consume(owner, points) {
      try {
        return await (shared === null
          ? local.consume(owner, points)
          : withTimeout(() => shared.consume(owner, points)))
      } catch (refused) {
        if (refused instanceof RateLimiterRes) return refused
        // While Redis is down this node counts by itself.
        return local.consume(owner, points).catch((full: RateLimiterRes) => full)
      }
    },
    async refund(owner) {
      // Without Redis nothing is refunded; the bucket refills within a minute.
      await (
        shared === null ? local.reward(owner, 1) : withTimeout(() => shared.reward(owner, 1))
      ).catch(() => {})
    },
  }
}

/** Calls Redis; rejects on a timeout, and for a while after one. */
type WithRedisTimeout = <T>(call: () => Promise<T>) => Promise<T>

function createRedisTimeout(): WithRedisTimeout {
  let resting = false
  const rest = () => {
    resting = true
    setTimeout(() => (resting = false), REDIS_COOLDOWN_MS).unref()
  }
  return async (call) => {
    if (resting) throw new Error('Redis did not answer')
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        rest()
        reject(new Error('Redis did not answer'))
      }, REDIS_TIMEOUT_MS)
      call()
        .then(resolve, reject)
        .finally(() => clearTimeout(late))
    })
  }
}

const secondsUntilReset = (drawn: RateLimiterRes): number =>
  Math.max(1, Math.ceil(drawn.msBeforeNext / 1_000))

/** What a bucket of a caller has left after a request; `left` is negative when it was empty. */
interface DrawnBucket extends Pick<CountedCaller, 'per'> {
  readonly bucket: RateBucket
  readonly size: number
  readonly left: number
  readonly resetsIn: number
}

/** Draws on the bucket of each counted caller, up to the first empty one; returns the emptiest. */
async function draw(
  bucket: RateBucket,
  counted: readonly (CountedCaller | undefined)[],
  points: number,
): Promise<DrawnBucket> {
  let emptiest: DrawnBucket | null = null
  for (const caller of counted) {
    if (caller === undefined || (emptiest?.left ?? 0) < 0) continue
    const { id, factor, per } = caller
    const found = await bucket.consume(id, points)
    const size = bucket.size * factor
    const left = size - found.consumedPoints
    if (emptiest === null || left < emptiest.left)
      emptiest = { bucket, size, per, left, resetsIn: secondsUntilReset(found) }
  }
  return emptiest as DrawnBucket
}

function assertDrawn({ bucket, size, per, left, resetsIn }: DrawnBucket): void {
  const { name, seconds: windowSeconds } = bucket
  const rule = { name, subject: BUCKET_DESCRIPTIONS[name], max: size, per, windowSeconds }
  if (left < 0) throw rateLimitError(rule, resetsIn)
}

function setBucketHeaders(reply: FastifyReply, drawn: DrawnBucket, policy: string) {
  const { bucket, size, left, resetsIn } = drawn
  const { seconds } = bucket
  setRateLimitHeaders(reply, policy, { size, seconds }, Math.max(0, left), resetsIn)
}

function setRateLimitHeaders(
  reply: FastifyReply,
  policy: string,
  { size, seconds }: Pick<RateBucket, 'size' | 'seconds'>,
  left: number,
  resetsIn: number,
) {
  reply.header('ratelimit-policy', `"${policy}";q=${size};w=${seconds}`)
  reply.header('ratelimit', `"${policy}";r=${left};t=${resetsIn}`)
}
