import { connect as connectSocket } from 'node:net'
import postgres from 'postgres'
import { ARRAY_TYPES } from './arrays.ts'
import { socketPath } from './pid-file.ts'

/** int8 comes back as bigint; anything summed needs a cast to `::bigint`. */
export type Sql = postgres.Sql<{ bigint: bigint }>

/** Where a database is: a URL, or a unix socket whose directory may change when its server does. */
export type Target =
  | { readonly url: string }
  | { readonly socketDir: () => string; readonly database: string; readonly user: string }

export interface PoolOptions {
  readonly max: number
  /** One connection that is kept for as long as it lives. */
  readonly standing?: boolean
  readonly onclose?: () => void
  readonly onnotify?: (channel: string, payload: string) => void
}

/** Reads DATABASE_URL, where `socket:///dir?db=name&user=gas` stands for a unix socket. */
export function targetOf(databaseUrl: string): Target {
  if (!databaseUrl.startsWith('socket:')) return { url: databaseUrl }
  const { pathname, searchParams } = new URL(databaseUrl)
  const socketDir = decodeURIComponent(pathname)
  return {
    socketDir: () => socketDir,
    database: searchParams.get('db') ?? 'gas',
    user: searchParams.get('user') ?? 'gas',
  }
}

/**
 * A pool that fails fast: while the server is away a query is refused within the connect timeout,
 * and a fixed small pause replaces the growing one, so that it works again as soon as the server does.
 */
export function openPool(target: Target, { max, standing = false, ...hooks }: PoolOptions): Sql {
  const options = {
    ...hooks,
    max,
    types: { bigint: postgres.BigInt, ...ARRAY_TYPES },
    fetch_types: false,
    ...(standing ? { max_lifetime: null, idle_timeout: 0 } : {}),
    connect_timeout: 1.5,
    backoff: () => 0.02,
    prepare: true,
    onnotice: () => undefined,
    connection: {
      application_name: 'gas-station',
      statement_timeout: 30_000,
      lock_timeout: 10_000,
      idle_in_transaction_session_timeout: 30_000,
    },
  }
  if ('url' in target) return postgres(target.url, options)
  const { socketDir, database, user } = target
  const socket = (): unknown => connectSocket(socketPath(socketDir()))
  return postgres({
    ...options,
    host: 'localhost',
    ssl: false,
    database,
    user,
    socket,
  } as postgres.Options<{ bigint: postgres.PostgresType<bigint> }>)
}
