import type { ConnectionOptions } from 'node:tls'
import { SettingError } from '../../core/setting-error.ts'
import {
  ConnectionUrlError,
  parseConnectionUrl,
  type ConnectionUrl,
} from '../../core/validation/connection-url.ts'

/** Reads `REDIS_URL`, for both clients of Redis (decision 421). */

/** The address of a Redis: a server on the network, or the path of its socket. */
export type RedisAddress = RedisLogin &
  (
    | { readonly host: string; readonly port: number; readonly tls: ConnectionOptions | null }
    | { readonly path: string }
  )

interface RedisLogin {
  readonly username?: string
  readonly password?: string
  readonly db?: number
}

/**
 * A connection that leaves a command unanswered for this long is replaced. If Redis has moved, or a
 * router has dropped the connection, nothing else ends it for a quarter of an hour.
 */
export const REDIS_SOCKET_TIMEOUT_MS = 3_000

/** By what they stand for: plain, encrypted, and a socket. */
const SCHEMES: Readonly<Record<string, 'tcp' | 'tls' | 'socket'>> = {
  redis: 'tcp',
  rediss: 'tls',
  valkey: 'tcp',
  valkeys: 'tls',
  unix: 'socket',
  'redis+unix': 'socket',
  'redis+socket': 'socket',
}
const PARAMETERS =
  'db database virtual_host user username password family ssl_cert_reqs rejectUnauthorized tls'
/** Of other clients. */
const IGNORED =
  'client_name protocol timeout connect_timeout socket_timeout read_timeout write_timeout dial_timeout pool_size max_connections health_check_interval decode_responses'
const isKnown = (name: string): boolean => `${PARAMETERS} ${IGNORED}`.split(' ').includes(name)

/** Parses REDIS_URL; throws a SettingError that repeats no part of a password. */
export function parseRedisUrl(text: string): RedisAddress {
  try {
    return toAddress(parseConnectionUrl(text, { schemes: Object.keys(SCHEMES), knows: isKnown }))
  } catch (error) {
    if (!(error instanceof ConnectionUrlError)) throw error
    throw new SettingError(`REDIS_URL ${error.message}`)
  }
}

function toAddress({ scheme, user, password, hosts, path, query }: ConnectionUrl): RedisAddress {
  const kind = SCHEMES[scheme]
  const name = query.get('username') ?? query.get('user') ?? user
  const secret = query.get('password') ?? password
  const database =
    query.get('db') ??
    query.get('database') ??
    query.get('virtual_host') ??
    (kind === 'socket' ? '' : path)
  if (!/^\d*\/?$/.test(database))
    throw new ConnectionUrlError('must end with the number of a database, or with the port')
  const login = {
    ...(name === null ? {} : { username: name }),
    ...(secret === null || secret === '' ? {} : { password: secret }),
    db: Number.parseInt(database || '0', 10),
  }
  const [{ host, port } = { host: '', port: null }, ...more] = hosts
  if (kind === 'socket') {
    if (host !== '' || path === '')
      throw new ConnectionUrlError(`must be ${scheme}:///path/of/the/socket`)
    return { ...login, path: `/${path}` }
  }
  if (more.length > 0)
    throw new ConnectionUrlError('names several hosts: clusters and sentinels are not supported')
  return {
    ...login,
    host: host || 'localhost',
    port: port ?? 6379,
    tls: kind === 'tls' || query.get('tls') === 'true' ? tlsOf(query) : null,
  }
}

/** Heroku and others certify their Redis themselves and tell clients not to check. */
function tlsOf(query: ConnectionUrl['query']): ConnectionOptions {
  const unchecked =
    /^(none|CERT_NONE)$/i.test(query.get('ssl_cert_reqs') ?? '') ||
    query.get('rejectUnauthorized') === 'false'
  return unchecked ? { rejectUnauthorized: false } : {}
}

/** Host and port, or the path, for people. */
export const describeRedis = (address: RedisAddress): string =>
  'path' in address
    ? address.path
    : `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`

/** The address as ioredis takes it. */
export function toIoredisOptions(address: RedisAddress) {
  if ('path' in address) return address
  const { tls, ...plain } = address
  // Any family: private networks such as Railway's have names with IPv6 addresses only.
  return { ...plain, family: 0, ...(tls === null ? {} : { tls }) }
}
