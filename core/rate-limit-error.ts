import { ServiceError } from './errors.ts'

/** A limit on how often: `most` of `what` for each `per` in `seconds`. */
export interface RateLimitRule {
  /** Names the limit in `limit_source`, as `rate.<name>`. */
  readonly name: string
  readonly subject: string
  readonly max: number
  readonly per: 'API key' | 'agent' | 'address' | 'network' | 'caller' | 'socket'
  readonly windowSeconds: number
}

/** Whoever asked too often is told which limit it was, what it is, and when to come again. */
export function rateLimitError(limit: RateLimitRule, retryAfter: number): ServiceError {
  const { name, subject, max, per, windowSeconds } = limit
  return new ServiceError('rate_limited', {
    detail: `Only ${max} ${subject} ${spanOf(windowSeconds)} for each ${per}: come again in ${retryAfter} s.`,
    limit_source: `rate.${name}`,
    limit: max,
    per,
    window_seconds: windowSeconds,
    retry_after: retryAfter,
  })
}

function spanOf(seconds: number): string {
  switch (seconds) {
    case 1:
      return 'a second'
    case 60:
      return 'a minute'
    case 3_600:
      return 'an hour'
    default:
      return `in ${seconds} seconds`
  }
}
