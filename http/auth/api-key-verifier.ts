import type { Clock } from '../../core/clock.ts'
import { sha256Hex } from '../../core/key-derivation-and-encryption.ts'
import { isApiKey } from '../../core/ids-and-api-keys.ts'
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
  /** The same from this node's cache, without a promise; undefined where the store has to be read. */
  verifyCached(secret: string): ApiKeyRecord | null | undefined
  /** Drops this node's copy of a changed key. Other nodes are notified by the commit. */
  invalidate(id: string): void
  close(): void
}

/**
 * Caches verified keys (LRU) by SHA-256, which is cheaper than the keyed hash of the store and reveals
 * nothing of 256 random bits. Changes of keys arrive over the bus; while the bus may have missed one, every
 * lookup reads Postgres.
 */
export function createApiKeyVerifier(
  keys: ApiKeyStore,
  bus: MessageBus,
  clock: Clock,
): ApiKeyVerifier {
  const verified = new Map<string, CachedApiKey>()
  const digests = new Map<string, string>()
  let changes = 0

  function forget(id: string): void {
    changes += 1
    const digest = digests.get(id)
    if (digest === undefined) return
    verified.delete(digest)
    digests.delete(id)
  }

  function forgetAll(): void {
    changes += 1
    verified.clear()
    digests.clear()
  }

  function keep(digest: string, record: ApiKeyRecord): void {
    verified.delete(digest)
    verified.set(digest, { record, until: clock.mono() + CACHE_TTL_MS })
    digests.set(record.id, digest)
    const [oldest] = verified.size > MAX_CACHED_KEYS ? verified : []
    if (oldest === undefined) return
    verified.delete(oldest[0])
    digests.delete(oldest[1].record.id)
  }

  /** The cached record; undefined without one, or while the bus may have missed a change. */
  function findCached(digest: string): ApiKeyRecord | undefined {
    const kept = verified.get(digest)
    if (kept === undefined || kept.until <= clock.mono() || !bus.healthy()) return undefined
    return kept.record
  }

  async function find(secret: string): Promise<ApiKeyRecord | null> {
    if (!bus.healthy()) {
      forgetAll()
      return keys.find(keys.hash(secret))
    }
    const digest = sha256Hex(secret)
    const kept = findCached(digest)
    if (kept !== undefined) return kept
    const before = changes
    const record = await keys.find(keys.hash(secret))
    // A change received during the read may be newer than the row that was read.
    if (record !== null && before === changes && bus.healthy()) keep(digest, record)
    return record
  }

  const close = bus.subscribe(API_KEY_CHANGES_TOPIC, forget, forgetAll)
  return {
    async verify(secret) {
      if (!isApiKey(secret)) return null
      const record = await find(secret)
      return record !== null && isKeyActive(record, clock.now()) ? record : null
    },
    verifyCached(secret) {
      const record = findCached(sha256Hex(secret))
      if (record !== undefined) return isKeyActive(record, clock.now()) ? record : null
      return isApiKey(secret) ? undefined : null
    },
    invalidate: forget,
    close,
  }
}

const isKeyActive = ({ revokedAt, expiresAt }: ApiKeyRecord, now: number): boolean =>
  revokedAt === null && (expiresAt === null || expiresAt.getTime() > now)
