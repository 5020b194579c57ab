import { callerBounds, type CallerAddress } from '../core/address-bounds.ts'
import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { createNodeRateLimiter } from '../core/concurrency/node-rate-limiter.ts'

/** The parts of a call that its failures are counted by. */
export interface FailedCallCallerAndTool {
  readonly request: {
    readonly caller: CallerAddress & { readonly agentId: string | null }
  }
  readonly tool: { readonly slug: string }
}

/**
 * Limits failed calls to addresses that the caller named, per tool and agent (or address). They are
 * refunded and the caller may control the address (decision 151).
 */
export interface FailedCallLimiter {
  /** Throws `rate_limited` when the limit is reached. */
  assertBelowLimit(plan: FailedCallCallerAndTool): void
  /** Counts the failure if the caller could have caused it. */
  recordFailure(plan: FailedCallCallerAndTool, error: unknown): void
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
  const countedOf = ({ request: { caller }, tool }: FailedCallCallerAndTool) =>
    callerBounds(caller).map(({ id, factor }) => ({ owner: `${id} ${tool.slug}`, factor }))
  return {
    assertBelowLimit(plan) {
      for (const { owner, factor } of countedOf(plan)) rate.assertWithinLimit(owner, factor)
    },
    recordFailure(plan, error) {
      if (!isCallerCaused(error)) return
      for (const { owner } of countedOf(plan)) rate.recordHit(owner)
    },
  }
}

/** Failures that a caller can cause: the named site, or work that is too long or too large. */
const isCallerCaused = (error: unknown): boolean =>
  error instanceof ServiceError &&
  (typeof error.details['host'] === 'string' ||
    error.code === 'tool_timeout' ||
    error.code === 'response_too_large')
