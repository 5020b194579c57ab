import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { HOUR, SECOND } from '../../core/clock.ts'
import { limited, type Limit } from '../../core/limited.ts'
import { LIMITS, RATES, type RateClass } from '../../core/limits.ts'
import type { Admitted } from '../../payments/newcomers.ts'
import type { Services } from '../services.ts'
import { allows } from '../key-powers.ts'

const REDIS_PATIENCE_MS = 250
/** After a silence Redis is not asked for so long: not every request should wait for it. */
const REDIS_REST_MS = 1_000
/** What each bucket counts, as its refusals call it. */
const COUNTED: Readonly<Record<RateClass | 'hive', string>> = {
  refuel: 'calls of tools',
  write: 'writing requests',
  read: 'reading requests',
  plan: 'plans',
  crew: 'crews',
  manage: 'requests to manage keys and Backpacks',
  hive: 'searches of the public Hive',
}

/** Counts requests by agent, whichever of its keys it uses, or by visitor without a key (decision 14). */
export interface Limits {
  /** Draws `points` from a bucket of the caller; 429 when it is empty. */
  draw(request: FastifyRequest, reply: FastifyReply, rate: RateClass, points: number): Promise<void>
  /** Draws one point of the bucket of an agent, and announces nothing. */
  drawAgent(agentId: string, rate: RateClass): Promise<void>
  /** Takes a point back that was drawn for nothing. */
  giveBackAgent(agentId: string, rate: RateClass): Promise<void>
  /** Lets new agents in where the hour of their address has room (decision 55); null without limits. */
  onboard(
    request: FastifyRequest,
    reply: FastifyReply,
    agents: number,
    isBatch: boolean,
  ): Promise<Admitted | null>
  /** Counts a search of the public Hive against the hour of its address. */
  hiveSearch(request: FastifyRequest, reply: FastifyReply): Promise<void>
}

interface Bucket {
  readonly name: keyof typeof COUNTED
  readonly size: number
  readonly seconds: number
  consume(owner: string, points: number): Promise<RateLimiterRes>
  giveBack(owner: string): Promise<void>
}

/** A bucket of `burst` requests that is full again after `burst / perSecond` seconds. */
export function installRateLimits(app: FastifyInstance, services: Services): void {
  const { config, newcomers, plane } = services
  const soon = patience()
  const buckets = Object.fromEntries(
    Object.entries(RATES).map(([name, { perSecond, burst }]) => [
      name,
      bucket(name as RateClass, burst, burst / perSecond, plane.redis, soon),
    ]),
  ) as Record<RateClass, Bucket>
  const seekers = bucket('hive', LIMITS.hiveSearchesPerHour, HOUR / SECOND, plane.redis, soon)

  const limits: Limits = {
    async draw(request, reply, rate, points) {
      if (!config.rateLimits) return
      const { caller } = request
      const drawn = await buckets[rate].consume(caller.agentId ?? caller.visitorId, points)
      announce(reply, buckets[rate], drawn, caller.agentId === null ? 'visitor' : 'agent')
      const per = caller.agentId === null ? 'address' : 'agent'
      if (drawn.consumedPoints > buckets[rate].size) throw exhausted(buckets[rate], drawn, per)
    },
    async drawAgent(agentId, rate) {
      if (!config.rateLimits) return
      const drawn = await buckets[rate].consume(agentId, 1)
      if (drawn.consumedPoints > buckets[rate].size) throw exhausted(buckets[rate], drawn, 'agent')
    },
    async giveBackAgent(agentId, rate) {
      if (config.rateLimits) await buckets[rate].giveBack(agentId)
    },
    async onboard({ caller }, reply, agents, isBatch) {
      if (!config.rateLimits) return null
      const admitted = await newcomers.admit(caller, agents, isBatch)
      const seconds = Math.max(1, Math.ceil((admitted.resetsAt - services.clock.now()) / 1_000))
      tell(
        reply,
        'onboard',
        { size: newcomers.perHour, seconds: HOUR / SECOND },
        admitted.left,
        seconds,
      )
      return admitted
    },
    async hiveSearch(request, reply) {
      if (!config.rateLimits) return
      const drawn = await seekers.consume(request.caller.visitorId, 1)
      announce(reply, seekers, drawn, 'hive')
      if (drawn.consumedPoints > seekers.size) throw exhausted(seekers, drawn, 'address')
    },
  }
  app.decorate('limits', limits)
  if (!config.rateLimits) return
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) return
    const rate = rateOf(request)
    if (rate !== 'none') await limits.draw(request, reply, rate, 1)
  })
}

/**
 * The bucket of a request. Only a key that will be let in draws on `manage`: a bound key, or one
 * without the scope, would use up what its owner needs to stop it.
 */
function rateOf({ method, apiKey, routeOptions }: FastifyRequest): RateClass | 'none' {
  const { rate, scope } = routeOptions.config
  const usual = method === 'GET' ? 'read' : 'write'
  if (rate !== 'manage') return rate ?? usual
  const mayManage =
    apiKey !== null && apiKey.backpackId === null && (scope === undefined || allows(apiKey, scope))
  return mayManage ? 'manage' : usual
}

function bucket(
  name: Bucket['name'],
  size: number,
  seconds: number,
  redis: Services['plane']['redis'],
  soon: Soon,
): Bucket {
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
          : soon(() => shared.consume(owner, points)))
      } catch (refused) {
        if (refused instanceof RateLimiterRes) return refused
        // Redis is away or hangs: this node counts by itself.
        return local.consume(owner, points).catch((full: RateLimiterRes) => full)
      }
    },
    async giveBack(owner) {
      // Where Redis is away nothing is given back: the turn comes again with the next minute.
      await (shared === null ? local.reward(owner, 1) : soon(() => shared.reward(owner, 1))).catch(
        () => {},
      )
    },
  }
}

/** Asks Redis, and rejects where it does not answer soon, or did not a moment ago. */
type Soon = <T>(ask: () => Promise<T>) => Promise<T>

function patience(): Soon {
  let resting = false
  const rest = () => {
    resting = true
    setTimeout(() => (resting = false), REDIS_REST_MS).unref()
  }
  return async (ask) => {
    if (resting) throw new Error('Redis did not answer')
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        rest()
        reject(new Error('Redis did not answer'))
      }, REDIS_PATIENCE_MS)
      ask()
        .then(resolve, reject)
        .finally(() => clearTimeout(late))
    })
  }
}

const secondsLeft = (drawn: RateLimiterRes): number =>
  Math.max(1, Math.ceil(drawn.msBeforeNext / 1_000))

function announce(reply: FastifyReply, bucket: Bucket, drawn: RateLimiterRes, policy: string) {
  const left = Math.max(0, bucket.size - drawn.consumedPoints)
  tell(reply, policy, bucket, left, secondsLeft(drawn))
}

function tell(
  reply: FastifyReply,
  policy: string,
  { size, seconds }: Pick<Bucket, 'size' | 'seconds'>,
  left: number,
  resetsIn: number,
) {
  reply.header('ratelimit-policy', `"${policy}";q=${size};w=${seconds}`)
  reply.header('ratelimit', `"${policy}";r=${left};t=${resetsIn}`)
}

const exhausted = ({ name, size, seconds }: Bucket, drawn: RateLimiterRes, per: Limit['per']) =>
  limited({ name, what: COUNTED[name], most: size, per, seconds }, secondsLeft(drawn))
