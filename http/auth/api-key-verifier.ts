import type { Clock } from '../../core/clock.ts'
import { isApiKey } from '../../core/ids.ts'
import type { MessageBus } from '../../persistence/message-bus.ts'
import {
  API_KEY_CHANGES_TOPIC,
  type ApiKeyRecord,
  type ApiKeyStore,
} from '../../persistence/agents/api-key-store.ts'

/** Verification of API keys, with a cache per node. */

const MAX_CACHED_KEYS = 20_000
const CACHE_TTL_MS = 30_000

interface CachedApiKey {
  readonly record: ApiKeyRecord
  readonly until: number
}

/** Verifies API keys for REST, WebSocket, SSE and MCP. */
export interface ApiKeyVerifier {
  /** Returns the record of a working key, else null. */
  verify(secret: string): Promise<ApiKeyRecord | null>
  /** Drops this node's copy of a changed key. Other nodes are notified by the commit. */
  invalidate(id: string): void
  close(): void
}

/**
 * Caches verified keys by hash (LRU). Changes of keys arrive over the bus; while the bus may have missed one,
 * every lookup reads Postgres.
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
    // A change received during the read may be newer than the row that was read.
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
