import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { openPostgresPool } from '../../persistence/postgres/postgres-connection-pool.ts'
import { startEmbeddedPostgres } from '../../persistence/postgres/embedded-postgres-server.ts'
import { createStationHttpClient, type StationHttpClient } from '../station-http-client.ts'
import type { SeededRandom } from '../seeded-random.ts'
import { startNginxProcess, type NginxProcess } from '../nginx-process.ts'
import {
  startTestWebhookReceiver,
  type TestWebhookReceiver,
} from '../accepting-webhook-receiver.ts'
import { startRedisServer, type RedisServerProcess } from '../redis-server.ts'
import { spawnStationProcess, type StationProcess } from '../station-process.ts'
import { findFreePort } from '../free-port.ts'

/** The cluster under test: three stations behind nginx with shared PostgreSQL and Redis. */

export interface ClusterOptions {
  readonly code: string
  readonly dataDir: string
  readonly chance: SeededRandom
}

/** The parts that faults hit, and clients that observe them. */
export interface ClusterEnvironment {
  readonly chance: SeededRandom
  readonly dataDir: string
  readonly sql: Sql
  readonly databaseUrl: string
  readonly redis: RedisServerProcess
  readonly ports: readonly number[]
  readonly stations: StationProcess[]
  start(at: number): Promise<StationProcess>
  readonly nginx: NginxProcess
  /** Through nginx, as clients connect. */
  readonly client: StationHttpClient
  /** One per station, without nginx. */
  readonly direct: readonly StationHttpClient[]
  readonly receiver: TestWebhookReceiver
}

const NODES = 3
const CONNECTIONS = 64
/** Three nodes share the 60 connections of the embedded database. */
const DATABASE_CONNECTIONS = '6'
export const CLUSTER_STARTER_USDC = 20

/**
 * Starts three stations over one PostgreSQL and one Redis, behind the deployed nginx configuration.
 */
export async function withClusterEnvironment<T>(
  options: ClusterOptions,
  work: (ground: ClusterEnvironment) => Promise<T>,
): Promise<T> {
  const { code, dataDir, chance } = options
  const opened: (() => Promise<unknown> | void)[] = []
  const open = <P>(part: P, close: (part: P) => Promise<unknown> | void): P => {
    opened.push(() => close(part))
    return part
  }
  try {
    // The database belongs to no station, so it survives the death of a node.
    const database = open(await startEmbeddedPostgres({ dataDir, log: () => {} }), (it) =>
      it.stop(),
    )
    opened.push(() => rmSync(database.socketDir(), { recursive: true, force: true }))
    const redis = open(await startRedisServer(join(dataDir, 'redis'), await findFreePort()), (it) =>
      it.stop(),
    )
    const receiver = open(await startTestWebhookReceiver(), (it) => it.close())
    const databaseUrl = `socket://${database.socketDir()}?db=gas&user=gas`
    const env = {
      DATABASE_URL: databaseUrl,
      DATABASE_CONNECTIONS,
      REDIS_URL: redis.url,
      MASTER_KEY: randomBytes(32).toString('base64'),
      TRUST_PROXY: '1',
      STARTER_CREDITS_USDC: String(CLUSTER_STARTER_USDC),
      SSRF_ALLOW: `127.0.0.1:${receiver.port}`,
      LOG_LEVEL: 'silent',
    }
    const ports: number[] = []
    while (ports.length < NODES) ports.push(await findFreePort())
    const start = (at: number) =>
      spawnStationProcess({ code, dataDir, port: ports[at] as number, env })
    const stations: StationProcess[] = []
    opened.push(() => Promise.all(stations.map((station) => station.stop())))
    for (const at of ports.keys()) stations.push(await start(at))
    const dir = join(dataDir, 'nginx')
    const nginx = open(
      await startNginxProcess({ dir, port: await findFreePort(), stations: ports }),
      (it) => it.stop(),
    )
    const [client, ...direct] = [nginx.url, ...stations.map(({ url }) => url)].map((url) =>
      open(createStationHttpClient(url, CONNECTIONS), (it) => it.close()),
    ) as [StationHttpClient, ...StationHttpClient[]]
    const place = { socketDir: database.socketDir, database: 'gas', user: 'gas' }
    const sql = open(openPostgresPool(place, { max: 3 }), (it) => it.end({ timeout: 1 }))
    const parts = { chance, dataDir, sql, databaseUrl, redis, ports, stations, start }
    return await work({ ...parts, nginx, client, direct, receiver })
  } finally {
    for (const close of opened.reverse()) await close()
  }
}
