import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Sql } from '../../persistence/postgres/connect.ts'
import { openPool } from '../../persistence/postgres/connect.ts'
import { startServer } from '../../persistence/postgres/server.ts'
import { clientOf, type Client } from './agents.ts'
import type { Chance } from './chance.ts'
import { startNginx, type Nginx } from './nginx.ts'
import { startReceiver, type Receiver } from './receiver.ts'
import { startRedis, type RedisServer } from './redis.ts'
import { freePort, startStation, type Station } from './station.ts'

export interface ClusterOptions {
  readonly code: string
  readonly dataDir: string
  readonly chance: Chance
}

/** Everything that can be struck, and what looks on. */
export interface Ground {
  readonly chance: Chance
  readonly dataDir: string
  readonly sql: Sql
  readonly databaseUrl: string
  readonly redis: RedisServer
  readonly ports: readonly number[]
  readonly stations: Station[]
  start(at: number): Promise<Station>
  readonly nginx: Nginx
  /** Through nginx, as clients go. */
  readonly client: Client
  /** Past nginx, to each station. */
  readonly direct: readonly Client[]
  readonly receiver: Receiver
}

const NODES = 3
const CONNECTIONS = 64
/** Three nodes share the 60 connections of the embedded database. */
const DATABASE_CONNECTIONS = '6'
export const STARTER_USDC = 20

/** Three stations over one PostgreSQL and one Redis, behind nginx as it is deployed. */
export async function onGround<T>(
  options: ClusterOptions,
  work: (ground: Ground) => Promise<T>,
): Promise<T> {
  const { code, dataDir, chance } = options
  const opened: (() => Promise<unknown> | void)[] = []
  const open = <P>(part: P, close: (part: P) => Promise<unknown> | void): P => {
    opened.push(() => close(part))
    return part
  }
  try {
    // Nobody's of the three: a node that dies takes no database with it.
    const database = open(await startServer({ dataDir, log: () => {} }), (it) => it.stop())
    opened.push(() => rmSync(database.socketDir(), { recursive: true, force: true }))
    const redis = open(await startRedis(join(dataDir, 'redis'), await freePort()), (it) =>
      it.stop(),
    )
    const receiver = open(await startReceiver(), (it) => it.close())
    const databaseUrl = `socket://${database.socketDir()}?db=gas&user=gas`
    const env = {
      DATABASE_URL: databaseUrl,
      DATABASE_CONNECTIONS,
      REDIS_URL: redis.url,
      MASTER_KEY: randomBytes(32).toString('base64'),
      TRUST_PROXY: '1',
      STARTER_CREDITS_USDC: String(STARTER_USDC),
      SSRF_ALLOW: `127.0.0.1:${receiver.port}`,
      LOG_LEVEL: 'silent',
    }
    const ports: number[] = []
    while (ports.length < NODES) ports.push(await freePort())
    const start = (at: number) => startStation({ code, dataDir, port: ports[at] as number, env })
    const stations: Station[] = []
    opened.push(() => Promise.all(stations.map((station) => station.stop())))
    for (const at of ports.keys()) stations.push(await start(at))
    const dir = join(dataDir, 'nginx')
    const nginx = open(await startNginx({ dir, port: await freePort(), stations: ports }), (it) =>
      it.stop(),
    )
    const [client, ...direct] = [nginx.url, ...stations.map(({ url }) => url)].map((url) =>
      open(clientOf(url, CONNECTIONS), (it) => it.close()),
    ) as [Client, ...Client[]]
    const place = { socketDir: database.socketDir, database: 'gas', user: 'gas' }
    const sql = open(openPool(place, { max: 3 }), (it) => it.end({ timeout: 1 }))
    const parts = { chance, dataDir, sql, databaseUrl, redis, ports, stations, start }
    return await work({ ...parts, nginx, client, direct, receiver })
  } finally {
    for (const close of opened.reverse()) await close()
  }
}
