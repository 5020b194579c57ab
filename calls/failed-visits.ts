import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { createNodeRate } from '../core/node-rate.ts'

/** A call as far as its failures are counted. */
export interface Visiting {
  readonly request: {
    readonly caller: { readonly agentId: string | null; readonly visitorId: string }
  }
  readonly tool: { readonly slug: string }
}

/**
 * Calls that fail at an address that their caller named are refunded, and the caller may own what stands
 * there: so they are bounded for each agent, or address without a key, and tool (decision 151).
 */
export interface FailedVisits {
  /** Refuses with `rate_limited` where too many have failed. */
  demand(plan: Visiting): void
  /** Counts a failure if it is one of these. */
  note(plan: Visiting, error: unknown): void
}

export const UNBOUNDED: FailedVisits = { demand() {}, note() {} }

export function createFailedVisits(clock: Pick<Clock, 'mono'>): FailedVisits {
  const rate = createNodeRate(clock, {
    name: 'failed_visits',
    what: 'calls of this tool that fail where the caller sent them',
    most: LIMITS.failedVisits,
    per: 'caller',
    seconds: LIMITS.failedVisitsSeconds,
  })
  const ownerOf = ({ request: { caller }, tool }: Visiting) =>
    `${caller.agentId ?? caller.visitorId} ${tool.slug}`
  return {
    demand: (plan) => rate.demand(ownerOf(plan)),
    note(plan, error) {
      if (isCallers(error)) rate.count(ownerOf(plan))
    },
  }
}

/** Failures that a caller can bring about: a site it names, work that it makes too long or too large. */
const isCallers = (error: unknown): boolean =>
  error instanceof ServiceError &&
  (typeof error.details['host'] === 'string' ||
    error.code === 'tool_timeout' ||
    error.code === 'response_too_large')
