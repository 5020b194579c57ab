/** Where a Redis is: a URL, or the path of its socket. */
export interface RedisAddress {
  readonly url?: string
  readonly path?: string
}

/**
 * A line to Redis that leaves a command unanswered for so long is given up for a new one. Where Redis
 * has moved, or a router has forgotten the line, nobody else ends it for a quarter of an hour.
 */
export const REDIS_SOCKET_TIMEOUT_MS = 3_000
