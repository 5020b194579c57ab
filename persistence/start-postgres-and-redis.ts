import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { isAbsolute, relative, resolve } from 'node:path'
import { Redis } from 'ioredis'
import { createDatabaseAdjustedClock } from '../core/clock.ts'
import { SettingError } from '../core/setting-error.ts'
import { startPostgresNotifyBus } from './message-bus.ts'
import type { MessageBus } from './message-bus.ts'
import { assertSchemaCurrent, migrateSchema } from './migrate-schema.ts'
import { openPostgresPool } from './postgres/postgres-connection-pool.ts'
import { parseDatabaseUrl } from './postgres/database-url.ts'
import type { Sql } from './postgres/postgres-connection-pool.ts'
import type { DatabaseAddress } from './postgres/database-address.ts'
import { toDatabaseSettingError } from './postgres/connect-failure.ts'
import { decideTls, describeDatabase } from './postgres/database-address.ts'
import { hasDatabaseCluster } from './postgres/embedded-postgres-cluster.ts'
import { prepareDatabase } from './postgres/prepare-database.ts'
import { startEmbeddedPostgres } from './postgres/embedded-postgres-server.ts'
import {
  describeRedis,
  parseRedisUrl,
  REDIS_SOCKET_TIMEOUT_MS,
  toIoredisOptions,
  type RedisAddress,
} from './redis/redis-address.ts'
import { logRedisOutages } from './redis/redis-watch.ts'
import { startRedisChildProcess } from './redis/redis-child-process.ts'
import {
  createDisabledSnapshotCache,
  createRedisSnapshotCache,
} from './redis/redis-aggregate-snapshot-cache.ts'
import type { SnapshotCache } from './redis/redis-aggregate-snapshot-cache.ts'
import {
  startDatabaseWritabilityMonitor,
  type DatabaseWritabilityMonitor,
} from './database-writability-monitor.ts'
import { succeedsWithin } from './query-timeout.ts'

/** Starts the databases of the service: Postgres, which holds all data, and Redis, a cache. */

export type { Sql } from './postgres/postgres-connection-pool.ts'

export interface PostgresAndRedisSettings {
  readonly databaseUrl: string | null
  readonly redisUrl: string | null
  readonly dataDir: string
  readonly redis: 'auto' | 'none'
  readonly log: (line: string, level?: 'info' | 'warn') => void
  readonly maxConnections?: number
  /** The ids of this station's master keys, shown to other stations on the same database. */
  readonly keyIds?: readonly string[]
  /** False for commands that only look: a database without a station is a SettingError. */
  readonly mayCreate?: boolean
  /** Where to search for a Redis server, as in PATH. */
  readonly searchPath?: string
  /** For tests: other migrations than the service's. */
  readonly migrations?: string
  /** For tests: an embedded database without fsync. */
  readonly throwAway?: boolean
}

interface DataPlanePartHealth {
  readonly ok: boolean
  readonly detail?: string
}

export interface PostgresAndRedisHealth {
  readonly postgres: DataPlanePartHealth & { readonly kind: string }
  readonly redis: DataPlanePartHealth & { readonly kind: 'none' | 'url' | 'child' }
}

/** The databases of the service. Postgres is authoritative; Redis only speeds things up. */
export interface StationPostgresAndRedis {
  readonly sql: Sql
  /** Connections reserved for commits and hydration: lists and statistics cannot block them. */
  readonly commitSql: Sql
  readonly cache: SnapshotCache
  readonly bus: MessageBus
  /** Whether Postgres can store data; receives failed writes. */
  readonly storage: Pick<DatabaseWritabilityMonitor, 'failed'>
  /** For rate counters: fails fast and queues nothing. Null without Redis. */
  readonly redis: Redis | null
  /** The job queues: in Redis if available, else in Postgres. */
  readonly queues: {
    readonly target: DatabaseAddress
    readonly redis: RedisAddress | null
    readonly prefix: string
  }
  /** One log line: the databases, their location and version. */
  readonly description: string
  /** Which database this is, without any secret: host, port and name, or the data directory. */
  readonly where: string
  /** The same for the public: kinds only. */
  readonly kinds: string
  /** Never rejects, never takes longer than a second. */
  health(): Promise<PostgresAndRedisHealth>
  stop(): Promise<void>
}

interface PostgresHandle {
  readonly kind: 'url' | 'embedded'
  readonly target: DatabaseAddress
  readonly where: string
  describe(ms: number): string
  stop(): Promise<void>
}

interface RedisHandle {
  readonly kind: 'url' | 'child'
  readonly address: RedisAddress
  stop(): Promise<void>
}

const HEALTH_TIMEOUT_MS = 900
/** Those of commits in flight, and of earlier ones that were given up and still wait for a lock or the disk. */
const COMMIT_CONNECTIONS = 6
const REDIS_START_TIMEOUT_MS = 500
const DEFAULT_SEARCH_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/opt/homebrew/bin'

/** Starts or joins the configured databases and migrates the schema. */
export async function startPostgresAndRedis(
  settings: PostgresAndRedisSettings,
): Promise<StationPostgresAndRedis> {
  const opened: (() => Promise<unknown>)[] = []
  const close = async (): Promise<void> => {
    for (const stop of opened.splice(0).reverse()) await stop()
  }
  try {
    const startedAt = createDatabaseAdjustedClock().mono()
    const database = await startPostgres(settings)
    opened.push(database.stop)
    const redisPart = startRedis(settings)
    redisPart.catch(() => undefined)
    opened.push(async () => (await redisPart)?.stop())
    const explain = (error: unknown): never => {
      throw database.kind === 'url' ? toDatabaseSettingError(error, database.target) : error
    }
    const { maxConnections = 16, keyIds = [] } = settings
    const sql = openPostgresPool(database.target, { max: maxConnections, keyIds })
    opened.push(() => sql.end({ timeout: 2 }))
    const commitSql = openPostgresPool(database.target, { max: COMMIT_CONNECTIONS, keyIds })
    opened.push(() => commitSql.end({ timeout: 2 }))
    const { mayCreate = true } = settings
    await prepareDatabase(sql, {
      target: database.target,
      isEmbedded: database.kind === 'embedded',
      mayCreate,
    }).catch(explain)
    const namespace = await readRedisNamespace(sql)
    const ms = Math.round(createDatabaseAdjustedClock().mono() - startedAt)
    const prepareSchema = mayCreate
      ? migrateSchema(sql, settings.migrations)
      : assertSchemaCurrent(sql)
    await prepareSchema.catch(explain)
    const bus = await startPostgresNotifyBus({ sql, target: database.target, log: settings.log })
    opened.push(bus.stop)
    bus.onDeadConnections(() => [sql, commitSql].forEach((pool) => pool.renew()))
    const part = await redisPart
    const redis = part === null ? null : connectCounterRedis(part.address, namespace)
    const unwatch =
      part === null || redis === null
        ? () => {}
        : logRedisOutages(redis, nameRedis(part), settings.log)
    opened.push(async () => {
      unwatch()
      redis?.disconnect()
    })
    const [cache] = await Promise.all([
      part === null
        ? createDisabledSnapshotCache()
        : createRedisSnapshotCache(part.address, namespace),
      redis === null ? null : succeedsWithin(waitForRedisReady(redis), REDIS_START_TIMEOUT_MS),
    ])
    opened.push(cache.stop)
    const storage = startDatabaseWritabilityMonitor(sql, bus.renew)
    opened.push(async () => storage.stop())
    const redisKind = part?.kind ?? 'none'
    const description = `plane: postgres=${database.describe(ms)} redis=${redisKind}`
    return {
      sql,
      commitSql,
      cache,
      bus,
      redis,
      queues: {
        target: database.target,
        redis: part?.address ?? null,
        prefix: `${namespace}jobs`,
      },
      description,
      where: database.where,
      kinds: `postgres=${database.kind} redis=${redisKind}`,
      storage,
      health: () => checkHealth({ sql, database, redis, part, storage }),
      stop: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function startPostgres(settings: PostgresAndRedisSettings): Promise<PostgresHandle> {
  const { databaseUrl, mayCreate = true } = settings
  if (databaseUrl !== null) {
    const target = await decideTls(parseDatabaseUrl(databaseUrl))
    return {
      kind: 'url',
      target,
      where: describeDatabase(target),
      describe: (ms) => `url (${ms} ms)`,
      stop: async () => undefined,
    }
  }
  const { dataDir, log, throwAway = false } = settings
  if (!mayCreate && !hasDatabaseCluster(dataDir))
    throw new SettingError(
      `there is no database at ${toShortPath(dataDir)}: set DATA_DIR or DATABASE_URL`,
    )
  const server = await startEmbeddedPostgres({ dataDir, log, throwAway })
  const role = (): string => (server.isOwned() ? '' : ', run by another process')
  return {
    kind: 'embedded',
    where: resolve(dataDir),
    target: { socketDir: server.socketDir, database: 'gas', user: 'gas' },
    describe: (ms) =>
      `embedded ${server.version} (socket ${server.socketDir()}, ${ms} ms${role()})`,
    stop: server.stop,
  }
}

/** As it is typed, for a path below the working directory. */
const toShortPath = (path: string): string => {
  const below = relative('', path)
  return below.startsWith('..') || isAbsolute(below) ? path : `./${below}`
}

async function startRedis(settings: PostgresAndRedisSettings): Promise<RedisHandle | null> {
  const { redisUrl, dataDir, log, searchPath = DEFAULT_SEARCH_PATH } = settings
  if (redisUrl !== null)
    return { kind: 'url', address: parseRedisUrl(redisUrl), stop: async () => undefined }
  if (settings.redis === 'none') return null
  const child = await startRedisChildProcess({ dataDir, log, searchPath })
  return child === null ? null : { kind: 'child', address: { path: child.path }, stop: child.stop }
}

/** Separates databases that share a Redis, and a restored copy if the server identifies it. */
async function readRedisNamespace(sql: Sql): Promise<string> {
  const [database] = await sql<
    { oid: string }[]
  >`select oid::text as oid from pg_database where datname = current_database()`
  const [cluster] = await sql<
    { id: string }[]
  >`select system_identifier::text as id from pg_control_system()`.catch(() => [])
  const identity = `${cluster?.id ?? 'unknown'}/${database?.oid ?? ''}`
  return `gas:${createHash('sha256').update(identity).digest('hex').slice(0, 12)}:`
}

function connectCounterRedis(address: RedisAddress, keyPrefix: string): Redis {
  const redis = new Redis({
    ...toIoredisOptions(address),
    keyPrefix,
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    connectTimeout: 1_000,
    commandTimeout: 250,
    socketTimeout: REDIS_SOCKET_TIMEOUT_MS,
    retryStrategy: (times: number) => Math.min(50 * times, 1_000),
  })
  redis.on('error', () => undefined) // the failing command reports it; without a listener the process would end
  return redis
}

const nameRedis = ({ kind, address }: RedisHandle): string =>
  kind === 'url' ? `the Redis of REDIS_URL at ${describeRedis(address)}` : 'the private Redis'

/** The service starts without a reachable Redis. */
const waitForRedisReady = (redis: Redis): Promise<unknown> =>
  redis.status === 'ready' ? Promise.resolve() : once(redis, 'ready')

interface HealthCheckDeps {
  readonly sql: Sql
  readonly database: PostgresHandle
  readonly redis: Redis | null
  readonly part: RedisHandle | null
  readonly storage: DatabaseWritabilityMonitor
}

async function checkHealth({
  sql,
  database,
  redis,
  part,
  storage,
}: HealthCheckDeps): Promise<PostgresAndRedisHealth> {
  const [postgresOk, redisOk] = await Promise.all([
    succeedsWithin(sql`select 1`, HEALTH_TIMEOUT_MS),
    redis === null ? true : succeedsWithin(redis.ping(), HEALTH_TIMEOUT_MS),
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
