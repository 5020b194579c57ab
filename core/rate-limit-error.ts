import { ServiceError } from './errors.ts'

/** A rate limit: `max` times `subject` per `windowSeconds`, for each `per`. */
export interface RateLimitRule {
  /** Appears in `limit_source` as `rate.<name>`. */
  readonly name: string
  readonly subject: string
  readonly max: number
  readonly per: 'API key' | 'agent' | 'address' | 'host' | 'network' | 'caller' | 'socket'
  readonly windowSeconds: number
}

/**
 * Builds the `rate_limited` error: which limit was exceeded and when to retry. `retryAfter` is in
 * seconds.
 */
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
    case 86_400:
      return 'a day'
    default:
      return `in ${seconds} seconds`
  }
}
