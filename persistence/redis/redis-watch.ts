import type { Redis } from 'ioredis'

/**
 * Logs once that a Redis does not answer, and that it answers again. The station runs without one,
 * so nothing else tells an operator. `name` says which Redis it is. Returns a function that ends it.
 */
export function logRedisOutages(
  redis: Redis,
  name: string,
  log: (line: string, level?: 'info' | 'warn') => void,
): () => void {
  let isDown = false
  let stopped = false
  const lost = (reason: string): void => {
    if (isDown || stopped) return
    isDown = true
    log(`${name} does not answer (${reason}): the station runs without it, slower`)
  }
  redis.on('error', (error: Error) => lost(reasonOf(error)))
  redis.on('close', () => lost('the connection is closed'))
  redis.on('ready', () => {
    if (isDown) log(`${name} answers again`, 'info')
    isDown = false
  })
  return () => (stopped = true)
}

/** A name with several addresses fails with one error for each. */
const reasonOf = (error: Error): string =>
  error.message ||
  ((error as AggregateError).errors as Error[] | undefined)?.[0]?.message ||
  error.name
