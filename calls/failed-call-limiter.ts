import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { createNodeRateLimiter } from '../core/concurrency/node-rate-limiter.ts'

/** A call as far as its failures are counted. */
export interface FailedCallSource {
  readonly request: {
    readonly caller: { readonly agentId: string | null; readonly visitorId: string }
  }
  readonly tool: { readonly slug: string }
}

/**
 * Calls that fail at an address that their caller named are refunded, and the caller may own what stands
 * there: so they are bounded for each agent, or address without a key, and tool (decision 151).
 */
export interface FailedCallLimiter {
  /** Refuses with `rate_limited` where too many have failed. */
  assertBelowLimit(plan: FailedCallSource): void
  /** Counts a failure if it is one of these. */
  recordFailure(plan: FailedCallSource, error: unknown): void
}

export const NOOP_FAILED_CALL_LIMITER: FailedCallLimiter = {
  assertBelowLimit() {},
  recordFailure() {},
}

export function createFailedCallLimiter(clock: Pick<Clock, 'mono'>): FailedCallLimiter {
  const rate = createNodeRateLimiter(clock, {
    name: 'failed_visits',
    subject: 'calls of this tool that fail where the caller sent them',
    max: LIMITS.failedCallsPerWindow,
    per: 'caller',
    windowSeconds: LIMITS.failedCallsWindowSeconds,
  })
  const ownerOf = ({ request: { caller }, tool }: FailedCallSource) =>
    `${caller.agentId ?? caller.visitorId} ${tool.slug}`
  return {
    assertBelowLimit: (plan) => rate.assertWithinLimit(ownerOf(plan)),
    recordFailure(plan, error) {
      if (isCallerCaused(error)) rate.recordHit(ownerOf(plan))
    },
  }
}

/** Failures that a caller can bring about: a site it names, work that it makes too long or too large. */
const isCallerCaused = (error: unknown): boolean =>
  error instanceof ServiceError &&
  (typeof error.details['host'] === 'string' ||
    error.code === 'tool_timeout' ||
    error.code === 'response_too_large')
