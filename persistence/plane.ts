import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { systemClock } from '../core/clock.ts'
import { startBus } from './bus.ts'
import type { Bus } from './bus.ts'
import { migrate } from './migrate.ts'
import { openPool, targetOf } from './postgres/connect.ts'
import type { Sql, Target } from './postgres/connect.ts'
import { startServer } from './postgres/server.ts'
import { REDIS_SILENCE_MS, type RedisAddress } from './redis-address.ts'
import { startRedisChild } from './redis-child.ts'
import { noCache, redisCache } from './snapshot-cache.ts'
import type { SnapshotCache } from './snapshot-cache.ts'
import { watchStorage, type Storage } from './storage.ts'
import { within } from './within.ts'

export type { Sql } from './postgres/connect.ts'

export interface PlaneSettings {
  readonly databaseUrl: string | null
  readonly redisUrl: string | null
  readonly dataDir: string
  readonly redis: 'auto' | 'none'
  readonly log: (line: string) => void
  readonly maxConnections?: number
  /** The master keys of this station, for others to see that it holds them. */
  readonly keyIds?: readonly string[]
  /** Where a Redis server is looked for, as in PATH. */
  readonly searchPath?: string
  /** For tests: other migrations than the service's. */
  readonly migrations?: string
  /** For tests: an embedded database that flushes nothing to disk. */
  readonly throwAway?: boolean
}

interface Part {
  readonly ok: boolean
  readonly detail?: string
}

export interface PlaneHealth {
  readonly postgres: Part & { readonly kind: string }
  readonly redis: Part & { readonly kind: 'none' | 'url' | 'child' }
}

/** What the service keeps its data in. Postgres is the truth, Redis only makes things faster. */
export interface Plane {
  readonly sql: Sql
  /** Connections of the commits and of hydration alone: no list or statistic can hold them up. */
  readonly lane: Sql
  readonly cache: SnapshotCache
  readonly bus: Bus
  /** Whether Postgres has room for what it is given; failed writes are told to it. */
  readonly storage: Pick<Storage, 'failed'>
  /** For rate counters: it fails fast and queues nothing. Null where there is no Redis. */
  readonly redis: Redis | null
  /** Where the jobs keep their queues: in Redis where there is one, else in Postgres. */
  readonly queues: {
    readonly target: Target
    readonly redis: RedisAddress | null
    readonly prefix: string
  }
  /** What runs where, in one line for the log: with the place and the version of the database. */
  readonly line: string
  /** The same for strangers: kinds alone. */
  readonly kinds: string
  /** Never rejects, never takes longer than a second. */
  health(): Promise<PlaneHealth>
  stop(): Promise<void>
}

interface PostgresPart {
  readonly kind: string
  readonly target: Target
  describe(ms: number): string
  stop(): Promise<void>
}

interface RedisPart {
  readonly kind: 'url' | 'child'
  readonly address: RedisAddress
  stop(): Promise<void>
}

const HEALTH_MS = 900
const LANE_CONNECTIONS = 3
const REDIS_START_MS = 500
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/opt/homebrew/bin'

/** Starts or joins what the settings name and brings the schema up to date. */
export async function startPlane(settings: PlaneSettings): Promise<Plane> {
  const opened: (() => Promise<unknown>)[] = []
  const close = async (): Promise<void> => {
    for (const stop of opened.splice(0).reverse()) await stop()
  }
  try {
    const startedAt = systemClock().mono()
    const database = await startPostgres(settings)
    opened.push(database.stop)
    const redisPart = startRedis(settings)
    redisPart.catch(() => undefined)
    opened.push(async () => (await redisPart)?.stop())
    const { maxConnections = 16, keyIds = [] } = settings
    const sql = openPool(database.target, { max: maxConnections, keyIds })
    opened.push(() => sql.end({ timeout: 2 }))
    const lane = openPool(database.target, { max: LANE_CONNECTIONS, keyIds })
    opened.push(() => lane.end({ timeout: 2 }))
    await ensureDatabase(sql, database.target)
    const namespace = await namespaceOf(sql)
    const ms = Math.round(systemClock().mono() - startedAt)
    await migrate(sql, settings.migrations)
    const bus = await startBus({ sql, target: database.target, log: settings.log })
    opened.push(bus.stop)
    bus.onDeadLines(() => [sql, lane].forEach((pool) => pool.renew()))
    const part = await redisPart
    const redis = part === null ? null : counters(part.address, namespace)
    opened.push(async () => redis?.disconnect())
    const [cache] = await Promise.all([
      part === null ? noCache() : redisCache(part.address, namespace),
      redis === null ? null : within(readiness(redis), REDIS_START_MS),
    ])
    opened.push(cache.stop)
    const storage = watchStorage(sql)
    opened.push(async () => storage.stop())
    const redisKind = part?.kind ?? 'none'
    const line = `plane: postgres=${database.describe(ms)} redis=${redisKind}`
    return {
      sql,
      lane,
      cache,
      bus,
      redis,
      queues: {
        target: database.target,
        redis: part?.address ?? null,
        prefix: `${namespace}jobs`,
      },
      line,
      kinds: `postgres=${database.kind} redis=${redisKind}`,
      storage,
      health: () => health({ sql, database, redis, part, storage }),
      stop: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function startPostgres(settings: PlaneSettings): Promise<PostgresPart> {
  if (settings.databaseUrl !== null) {
    return {
      kind: 'url',
      target: targetOf(settings.databaseUrl),
      describe: (ms) => `url (${ms} ms)`,
      stop: async () => undefined,
    }
  }
  const { dataDir, log, throwAway = false } = settings
  const server = await startServer({ dataDir, log, throwAway })
  const role = (): string => (server.owned() ? '' : ', run by another process')
  return {
    kind: 'embedded',
    target: { socketDir: server.socketDir, database: 'gas', user: 'gas' },
    describe: (ms) =>
      `embedded ${server.version} (socket ${server.socketDir()}, ${ms} ms${role()})`,
    stop: server.stop,
  }
}

async function startRedis(settings: PlaneSettings): Promise<RedisPart | null> {
  const { redisUrl, dataDir, log, searchPath = DEFAULT_PATH } = settings
  if (redisUrl !== null)
    return { kind: 'url', address: { url: redisUrl }, stop: async () => undefined }
  if (settings.redis === 'none') return null
  const child = await startRedisChild({ dataDir, log, searchPath })
  return child === null ? null : { kind: 'child', address: { path: child.path }, stop: child.stop }
}

/** A new cluster has no database of ours; another process may make it at the same moment. */
async function ensureDatabase(sql: Sql, target: Target): Promise<void> {
  try {
    await sql`select 1`
  } catch (error) {
    if (codeOf(error) !== '3D000' || 'url' in target) throw error
    const admin = openPool({ ...target, database: 'postgres' }, { max: 1 })
    try {
      await admin`create database ${admin(target.database)}`
    } catch (cause) {
      if (!['42P04', '23505'].includes(codeOf(cause))) throw cause
    } finally {
      await admin.end({ timeout: 1 })
    }
  }
}

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? ''

/** Keeps databases that share a Redis apart, a restored copy included where the server tells. */
async function namespaceOf(sql: Sql): Promise<string> {
  const [database] = await sql<
    { oid: string }[]
  >`select oid::text as oid from pg_database where datname = current_database()`
  const [cluster] = await sql<
    { id: string }[]
  >`select system_identifier::text as id from pg_control_system()`.catch(() => [])
  const identity = `${cluster?.id ?? 'unknown'}/${database?.oid ?? ''}`
  return `gas:${createHash('sha256').update(identity).digest('hex').slice(0, 12)}:`
}

function counters({ url, path }: RedisAddress, keyPrefix: string): Redis {
  const options = {
    keyPrefix,
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    connectTimeout: 1_000,
    commandTimeout: 250,
    socketTimeout: REDIS_SILENCE_MS,
    retryStrategy: (times: number) => Math.min(50 * times, 1_000),
  }
  const redis = path === undefined ? new Redis(url ?? '', options) : new Redis(path, options)
  redis.on('error', () => undefined) // the command that fails says so; without a listener the process would end
  return redis
}

/** A Redis that is away at the start is no reason not to start. */
const readiness = (redis: Redis): Promise<unknown> =>
  redis.status === 'ready' ? Promise.resolve() : once(redis, 'ready')

interface Parts {
  readonly sql: Sql
  readonly database: PostgresPart
  readonly redis: Redis | null
  readonly part: RedisPart | null
  readonly storage: Storage
}

async function health({ sql, database, redis, part, storage }: Parts): Promise<PlaneHealth> {
  const [postgresOk, redisOk] = await Promise.all([
    within(sql`select 1`, HEALTH_MS),
    redis === null ? true : within(redis.ping(), HEALTH_MS),
  ])
  const fault = storage.fault()
  const detail = postgresOk ? `cannot store anything: ${fault}` : 'does not answer'
  return {
    postgres: {
      ok: postgresOk && fault === null,
      kind: database.kind,
      ...(postgresOk && fault === null ? {} : { detail }),
    },
    redis: {
      ok: redisOk,
      kind: part?.kind ?? 'none',
      ...(redisOk ? {} : { detail: 'does not answer' }),
    },
  }
}
