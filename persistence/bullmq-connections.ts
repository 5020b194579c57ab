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
import type { Sql, DatabaseAddress } from './postgres/connection-pool.ts'
import { REDIS_SOCKET_TIMEOUT_MS, type RedisAddress } from './redis/redis-address.ts'

/** BullMQ's own: a pool that is handed to it can carry no other. */
const BULLMQ_SCHEMA = 'bullmq'

/**
 * Brings BullMQ's tables in Postgres up to date; nothing is done where nothing is to be done. Safe
 * on nodes that start at once: they take turns under a lock.
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
  /** Gives up all connections at once: what waits for an answer on them is refused. */
  renew(): void
}

/** Connections of the jobs alone; each worker keeps one of them for good to listen on. */
export function createBullmqPostgresPool(target: DatabaseAddress, max: number): BullmqPostgresPool {
  const common = {
    max,
    application_name: 'gas-station-jobs',
    options: `-c search_path=${BULLMQ_SCHEMA}`,
    connectionTimeoutMillis: 1_500,
    keepAlive: true,
    allowExitOnIdle: true,
  }
  if ('url' in target) {
    const { url: connectionString } = target
    return toRenewablePool(
      new pg.Pool({ ...common, connectionString, Client: ConnectionRefusedClient as never }),
    )
  }
  const { socketDir, database, user } = target
  /** Each connection asks anew where the server is: the directory may change when it restarts. */
  class Client extends ConnectionRefusedClient {
    constructor(config: pg.ClientConfig) {
      super({ ...config, host: socketDir() })
    }
  }
  return toRenewablePool(new pg.Pool({ ...common, database, user, Client: Client as never }))
}

/** A client that is ended would wait for an answer to its goodbye: its stream is taken away instead. */
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
 * BullMQ pauses before the next try only after a refused connection; a missing socket or a server
 * that starts up it would ask again at once, for as long as it takes.
 */
class ConnectionRefusedClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config)
    // Checked out of a pool it has no listener: a server that dies then would end the process.
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

/** For hints: it fails at once where Redis is away, and nothing waits in it. */
export const connectBullmqProducerRedis = (address: RedisAddress): Redis =>
  connectRedis(address, {
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    socketTimeout: REDIS_SOCKET_TIMEOUT_MS,
  })

/** BullMQ lets a worker's connection wait for ten seconds at most before it is answered. */
const MAX_BLOCKING_READ_MS = 10 * SECOND

/**
 * For workers: it waits for as long as it takes until Redis is back. BullMQ makes itself a copy for
 * each worker, which it does not give up while Redis is away; `disconnect` ends them too.
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
 * While it waits for its next try ioredis has no socket to close, and so never ends nor answers what
 * was asked of it: it is told that no try was begun.
 */
function disconnectRedis(redis: Redis): void {
  if (redis.status === 'reconnecting') redis.status = 'wait'
  redis.disconnect()
}

function connectRedis({ url, path }: RedisAddress, more: object): Redis {
  const options = {
    ...more,
    connectTimeout: 1_000,
    retryStrategy: (times: number) => Math.min(50 * times, 1_000),
  }
  const redis = path === undefined ? new Redis(url ?? '', options) : new Redis(path, options)
  redis.on('error', () => undefined) // without a listener the process would end
  return redis
}
