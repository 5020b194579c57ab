import { Redis } from 'ioredis'
import { toIoredisOptions, type RedisAddress } from './redis-address.ts'

/** What `gas doctor` asks a Redis: its version, and what it does when its memory is full. */
export async function examineRedis(
  address: RedisAddress,
): Promise<{ version: string; eviction: string | null }> {
  const redis = new Redis({
    ...toIoredisOptions(address),
    lazyConnect: true,
    connectTimeout: 4_000,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  })
  let reason: Error | null = null
  redis.on('error', (error: Error) => (reason = error))
  try {
    await redis.connect()
    const info = await redis.info('server')
    const [, version = 'of an unknown version'] = /(?:valkey|redis)_version:(\S+)/.exec(info) ?? []
    // Managed services refuse CONFIG.
    const policy = await redis.config('GET', 'maxmemory-policy').catch(() => [])
    const [, eviction] = policy as string[]
    return { version, eviction: eviction ?? null }
  } catch (error) {
    throw reason ?? error
  } finally {
    redis.disconnect()
  }
}
