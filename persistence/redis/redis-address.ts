/** The address of a Redis: a URL, or the path of its socket. */
export interface RedisAddress {
  readonly url?: string
  readonly path?: string
}

/**
 * A connection that leaves a command unanswered for this long is replaced. If Redis has moved, or a
 * router has dropped the connection, nothing else ends it for a quarter of an hour.
 */
export const REDIS_SOCKET_TIMEOUT_MS = 3_000
