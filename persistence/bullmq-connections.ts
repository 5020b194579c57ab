import type { Socket } from 'node:net'
import {
  assertSchemaCompatibility,
  LATEST_SCHEMA_VERSION,
  runMigrations,
  SchemaMigrationRequiredError,
  type PostgresConnectionOptions,
} from 'bullmq'
import { Redis } from 'ioredis'
import pg from 'pg'
import { SECOND } from '../core/clock.ts'
import type { Sql } from './postgres/postgres-connection-pool.ts'
import type { DatabaseAddress } from './postgres/database-address.ts'
import {
  REDIS_SOCKET_TIMEOUT_MS,
  toIoredisOptions,
  type RedisAddress,
} from './redis/redis-address.ts'

/** Postgres and Redis connections for BullMQ. */

/** A fixed name of BullMQ: a pool handed to it can use no other schema. */
const BULLMQ_SCHEMA = 'bullmq'

/**
 * Migrates BullMQ's tables in Postgres; does nothing if they are current. A lock serializes nodes
 * that start at once.
 */
export async function migrateBullmqSchema(sql: Sql): Promise<void> {
  const session = await sql.reserve()
  const query = async (text: string, values?: readonly unknown[]) => {
    const asked = session.unsafe(text, values as never[] | undefined)
    return { rows: [...(await (values === undefined ? asked.simple() : asked))] as never[] }
  }
  try {
    if ((await readSchemaVersion({ query })) < LATEST_SCHEMA_VERSION)
      await runMigrations({ query }, BULLMQ_SCHEMA)
  } finally {
    session.release()
  }
}

async function readSchemaVersion(session: Parameters<typeof assertSchemaCompatibility>[0]) {
  try {
    return await assertSchemaCompatibility(session, BULLMQ_SCHEMA)
  } catch (error) {
    if (error instanceof SchemaMigrationRequiredError) return 0
    throw error
  }
}

/** A pool as BullMQ sees it. */
export type BullmqPostgresPool = PostgresConnectionOptions & {
  end(): Promise<void>
  /** Drops all connections at once: pending queries on them are rejected. */
  renew(): void
}

/** Opens the pool of the job queues; each worker keeps one connection for LISTEN. */
export function createBullmqPostgresPool(target: DatabaseAddress, max: number): BullmqPostgresPool {
  const common = {
    max,
    application_name: 'gas-station-jobs',
    options: `${target.options ?? ''} -c search_path=${BULLMQ_SCHEMA} -c jit=off`.trim(),
    connectionTimeoutMillis: 1_500,
    keepAlive: true,
    allowExitOnIdle: true,
  }
  const { database, user } = target
  const login = {
    database,
    user,
    ...(target.password == null ? {} : { password: target.password }),
  }
  if ('host' in target) {
    const { host, port, tls } = target
    const ssl = typeof tls === 'object' ? { ...tls } : false
    return toRenewablePool(
      new pg.Pool({
        ...common,
        ...login,
        host,
        port,
        ssl,
        Client: ConnectionRefusedClient as never,
      }),
    )
  }
  const { socketDir, port = 5432 } = target
  /** Each connection resolves the server's directory again: it may change on a restart. */
  class Client extends ConnectionRefusedClient {
    constructor(config: pg.ClientConfig) {
      super({ ...config, host: socketDir() })
    }
  }
  return toRenewablePool(
    new pg.Pool({ ...common, ...login, port, ssl: false, Client: Client as never }),
  )
}

/** Ending a client waits for the server's answer, so this destroys its stream instead. */
function toRenewablePool(pool: pg.Pool): BullmqPostgresPool {
  const streams = new Map<pg.PoolClient, Socket>()
  pool.on('connect', (client) =>
    streams.set(
      client,
      (client as unknown as { connection: { stream: Socket } }).connection.stream,
    ),
  )
  pool.on('remove', (client) => streams.delete(client))
  const renew = () => streams.forEach((stream) => stream.destroy())
  return Object.assign(pool, { renew }) as unknown as BullmqPostgresPool
}

/**
 * BullMQ pauses before a retry only after a refused connection; after a missing socket or a
 * starting server it would retry without a pause.
 */
class ConnectionRefusedClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config)
    // Outside the pool it has no listener: a dying server would end the process.
    this.on('error', () => {})
  }

  override connect(): Promise<pg.Client>
  override connect(done: (error: Error) => void): void
  override connect(done?: (error: Error) => void): Promise<pg.Client> | void {
    const told = (error: Error | null): Error =>
      (error === null ? error : Object.assign(error, { code: 'ECONNREFUSED' })) as Error
    if (done !== undefined) return super.connect((error: Error) => done(told(error)))
    return (super.connect() as Promise<unknown>).then(
      () => this,
      (error: Error) => Promise.reject(told(error)),
    )
  }
}

/** For hints: fails at once without Redis and queues no commands. */
export const connectBullmqProducerRedis = (address: RedisAddress): Redis =>
  connectRedis(address, {
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    socketTimeout: REDIS_SOCKET_TIMEOUT_MS,
  })

/** The longest blocking read of a BullMQ worker. */
const MAX_BLOCKING_READ_MS = 10 * SECOND

/**
 * For workers: waits until Redis is back. BullMQ duplicates the connection for each worker and does
 * not close the copy without Redis; `disconnect` ends the copies too.
 */
export function connectBullmqWorkerRedis(address: RedisAddress): {
  redis: Redis
  disconnect(): void
} {
  const socketTimeout = MAX_BLOCKING_READ_MS + REDIS_SOCKET_TIMEOUT_MS
  const redis = connectRedis(address, { maxRetriesPerRequest: null, socketTimeout })
  const all = [redis]
  const copy = redis.duplicate.bind(redis)
  redis.duplicate = (options) => {
    const made = copy(options)
    all.push(made)
    return made
  }
  return { redis, disconnect: () => all.forEach(disconnectRedis) }
}

/**
 * Between two connection attempts ioredis has no socket to close, so it never ends and never
 * rejects pending commands: this makes it believe that no attempt was started.
 */
function disconnectRedis(redis: Redis): void {
  if (redis.status === 'reconnecting') redis.status = 'wait'
  redis.disconnect()
}

function connectRedis(address: RedisAddress, more: object): Redis {
  const redis = new Redis({
    ...toIoredisOptions(address),
    ...more,
    connectTimeout: 1_000,
    retryStrategy: (times: number) => Math.min(50 * times, 1_000),
  })
  redis.on('error', () => undefined) // without a listener the process would end
  return redis
}
