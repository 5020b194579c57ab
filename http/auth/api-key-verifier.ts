import type { Clock } from '../../core/clock.ts'
import { isApiKey } from '../../core/ids.ts'
import type { MessageBus } from '../../persistence/message-bus.ts'
import {
  API_KEY_CHANGES_TOPIC,
  type ApiKeyRecord,
  type ApiKeyStore,
} from '../../persistence/agents/api-key-store.ts'

const MAX_CACHED_KEYS = 20_000
const CACHE_TTL_MS = 30_000

interface CachedApiKey {
  readonly record: ApiKeyRecord
  readonly until: number
}

/** Verifies API keys for every door of the service. */
export interface ApiKeyVerifier {
  /** The key, if it works now. */
  verify(secret: string): Promise<ApiKeyRecord | null>
  /** Drops this node's copy of a key that changed; the others hear of it with the commit. */
  invalidate(id: string): void
  close(): void
}

/**
 * Keys once verified are kept by their hash, least recently used first out. A change of a key is
 * heard over the bus; while one could be missed, nothing is trusted and Postgres is asked each time.
 */
export function createApiKeyVerifier(
  keys: ApiKeyStore,
  bus: MessageBus,
  clock: Clock,
): ApiKeyVerifier {
  const verified = new Map<string, CachedApiKey>()
  const hashes = new Map<string, string>()
  let changes = 0

  function forget(id: string): void {
    changes += 1
    const hash = hashes.get(id)
    if (hash === undefined) return
    verified.delete(hash)
    hashes.delete(id)
  }

  function forgetAll(): void {
    changes += 1
    verified.clear()
    hashes.clear()
  }

  function keep(hash: string, record: ApiKeyRecord): void {
    verified.delete(hash)
    verified.set(hash, { record, until: clock.mono() + CACHE_TTL_MS })
    hashes.set(record.id, hash)
    const [oldest] = verified.size > MAX_CACHED_KEYS ? verified : []
    if (oldest === undefined) return
    verified.delete(oldest[0])
    hashes.delete(oldest[1].record.id)
  }

  async function find(hash: string): Promise<ApiKeyRecord | null> {
    if (!bus.healthy()) {
      forgetAll()
      return keys.find(hash)
    }
    const kept = verified.get(hash)
    if (kept !== undefined && kept.until > clock.mono()) return kept.record
    const before = changes
    const record = await keys.find(hash)
    // A change heard while Postgres was read may be newer than what was read.
    if (record !== null && before === changes && bus.healthy()) keep(hash, record)
    return record
  }

  const close = bus.subscribe(API_KEY_CHANGES_TOPIC, forget, forgetAll)
  return {
    async verify(secret) {
      if (!isApiKey(secret)) return null
      const record = await find(keys.hash(secret))
      return record !== null && isKeyActive(record, clock.now()) ? record : null
    },
    invalidate: forget,
    close,
  }
}

const isKeyActive = ({ revokedAt, expiresAt }: ApiKeyRecord, now: number): boolean =>
  revokedAt === null && (expiresAt === null || expiresAt.getTime() > now)
