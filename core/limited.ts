import { ServiceError } from './errors.ts'

/** A limit on how often: `most` of `what` for each `per` in `seconds`. */
export interface Limit {
  /** Names the limit in `limit_source`, as `rate.<name>`. */
  readonly name: string
  readonly what: string
  readonly most: number
  readonly per: 'API key' | 'agent' | 'address' | 'network' | 'caller' | 'socket'
  readonly seconds: number
}

/** Whoever asked too often is told which limit it was, what it is, and when to come again. */
export function limited(limit: Limit, retryAfter: number): ServiceError {
  const { name, what, most, per, seconds } = limit
  return new ServiceError('rate_limited', {
    detail: `Only ${most} ${what} ${spanOf(seconds)} for each ${per}: come again in ${retryAfter} s.`,
    limit_source: `rate.${name}`,
    limit: most,
    per,
    window_seconds: seconds,
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
