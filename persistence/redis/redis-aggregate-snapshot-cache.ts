import { REDIS_SOCKET_TIMEOUT_MS, type RedisAddress } from './redis-address.ts'
import { succeedsWithin } from '../query-timeout.ts'
import type { StoredAggregate } from '../stored-aggregate.ts'

/**
 * A cache of snapshots. Entries may be missing or stale: the version check of the commit rejects
 * stale ones. No method fails or takes longer than 250 ms.
 */
export interface SnapshotCache {
  get(ids: string[]): Promise<Map<string, StoredAggregate>>
  put(aggregate: StoredAggregate): void
  drop(id: string): void
  stop(): Promise<void>
}

const CONNECT_TIMEOUT_MS = 500
const COMMAND_TIMEOUT_MS = 250
/** Interval of pings: an idle connection reports its loss no other way. */
const PING_INTERVAL_MS = 1_000
const SNAPSHOT_TTL_MS = 600_000
const MAX_PENDING_WRITES = 10_000
const WRITE_BATCH_SIZE = 256

/**
 * keys: snapshot; arguments: version, value, expiry in ms. A late writer cannot restore an older
 * version.
 */
const SET_IF_NEWER = `
local old = redis.call('GETRANGE', KEYS[1], 0, 19)
if tonumber(string.match(old, '^%d+') or -1) >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

export function createDisabledSnapshotCache(): SnapshotCache {
  return {
    get: async () => new Map(),
    put: () => undefined,
    drop: () => undefined,
    stop: async () => undefined,
  }
}

function toSocketOptions(address: RedisAddress) {
  if ('path' in address) return { path: address.path, tls: false as const }
  const { host, port, tls } = address
  return tls === null
    ? { host, port, tls: false as const }
    : { ...tls, host, port, tls: true as const }
}

/**
 * Creates the cache in Redis; recently read snapshots stay in this process until Redis reports a
 * change.
 */
export async function createRedisSnapshotCache(
  address: RedisAddress,
  namespace: string,
): Promise<SnapshotCache> {
  // Loaded here: most stations have no Redis, and the client takes 20 MB.
  const { BasicClientSideCache, createClient } = await import('redis')
  const nearby = new BasicClientSideCache({ ttl: 0, maxEntries: 10_000, evictPolicy: 'LRU' })
  const reconnectStrategy = (retries: number): number =>
    Math.min(50 * 2 ** Math.min(retries, 6), 1_000)
  const common = {
    RESP: 3 as const,
    clientSideCache: nearby,
    disableOfflineQueue: true,
    commandsQueueMaxLength: MAX_PENDING_WRITES,
    pingInterval: PING_INTERVAL_MS,
  }
  /** Also while connecting: an accepted connection may die before its first answer. */
  const socket = {
    connectTimeout: 1_000,
    socketTimeout: REDIS_SOCKET_TIMEOUT_MS,
    reconnectStrategy,
  }
  const { username, password, db = 0 } = address
  const login = {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    database: db,
  }
  const client = createClient({
    ...common,
    ...login,
    socket: { ...socket, ...toSocketOptions(address) },
  })
  client.on('error', () => undefined) // the client reconnects by itself, and a miss is a valid answer
  await succeedsWithin(client.connect(), CONNECT_TIMEOUT_MS) // it retries by itself

  const pending = new Map<string, StoredAggregate>()
  let writing = false
  /**
   * Set from a timeout to the next answer; nothing is sent meanwhile: written data would delay the
   * end of a dead connection.
   */
  let resting = false
  for (const alive of ['ping-interval', 'ready']) client.on(alive, () => (resting = false))
  const keyOf = (id: string): string => `${namespace}agg:${id}`
  const usable = (): boolean => client.isReady && !resting

  async function inTime<T>(work: Promise<T>): Promise<T | null> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => {
        resting = true
        resolve(null)
      }, COMMAND_TIMEOUT_MS)
    })
    return Promise.race([work.catch(() => null), late]).finally(() => clearTimeout(timer))
  }
  async function read(id: string, found: Map<string, StoredAggregate>): Promise<void> {
    const text = await client.get(keyOf(id))
    // Only a change clears a requested key, and most missing keys never appear.
    if (text === null) return nearby.invalidate(keyOf(id))
    const aggregate = parseSnapshot(text)
    if (aggregate?.id === id) found.set(id, aggregate)
  }
  async function write(aggregate: StoredAggregate): Promise<void> {
    const { id, version } = aggregate
    const value = `${version}|${JSON.stringify(aggregate)}`
    await client.eval(SET_IF_NEWER, {
      keys: [keyOf(id)],
      arguments: [String(version), value, String(SNAPSHOT_TTL_MS)],
    })
    nearby.invalidate(keyOf(id))
  }
  async function flush(): Promise<void> {
    writing = true
    await Promise.resolve() // calls of one tick are written together
    while (pending.size > 0) {
      const batch = [...pending.values()].slice(0, WRITE_BATCH_SIZE)
      for (const { id } of batch) pending.delete(id)
      if (!usable()) pending.clear()
      else await inTime(Promise.allSettled(batch.map(write)))
    }
    writing = false
  }
  return {
    async get(ids) {
      const found = new Map<string, StoredAggregate>()
      if (!usable() || ids.length === 0) return found
      await inTime(Promise.allSettled(ids.map((id) => read(id, found))))
      return new Map(found) // a late answer changes nothing any more
    },
    put(aggregate) {
      const waiting = pending.get(aggregate.id)
      if (waiting === undefined && pending.size >= MAX_PENDING_WRITES) return
      if (waiting === undefined || waiting.version < aggregate.version)
        pending.set(aggregate.id, aggregate)
      if (!writing) void flush()
    },
    drop(id) {
      pending.delete(id)
      nearby.invalidate(keyOf(id))
      if (usable()) client.unlink(keyOf(id)).catch(() => undefined)
    },
    async stop() {
      pending.clear()
      if (client.isOpen) client.destroy()
    },
  }
}

function parseSnapshot(text: string): StoredAggregate | null {
  try {
    return JSON.parse(text.slice(text.indexOf('|') + 1)) as StoredAggregate
  } catch {
    return null
  }
}
