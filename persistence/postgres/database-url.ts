import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { userInfo } from 'node:os'
import { SettingError } from '../../core/setting-error.ts'
import {
  ConnectionUrlError,
  parseConnectionUrl,
  type ConnectionUrl,
} from '../../core/validation/connection-url.ts'
import type { DatabaseAddress, DatabaseTls } from './database-address.ts'

/** Reads `DATABASE_URL`, in every form that hosting services hand out (decision 421). */

const SCHEMES = ['postgres', 'postgresql', 'socket']
/** They decide where and how to connect; the last three are Prisma's and node-postgres' spellings. */
const MEANINGFUL =
  'host port user password dbname db options sslmode sslrootcert sslcert sslkey schema pgbouncer target_session_attrs ssl sslaccept sslidentity'
/** Of other clients: the station has its own pools, timeouts and name. */
const IGNORED =
  'application_name fallback_application_name channel_binding client_encoding connect_timeout connection_limit gssencmode hostaddr keepalives keepalives_count keepalives_idle keepalives_interval max max_prepared_statements maxsize pool pool_max_conns pool_min_conns pool_mode pool_size pool_timeout prepare prepareThreshold prepared_statements require_auth serverVersion charset socket_timeout ssl_max_protocol_version ssl_min_protocol_version sslcompression sslcrl sslnegotiation sslsni statement_cache_size supa tcp_user_timeout timeout uselibpqcompat workaround'
const isMeaningful = (name: string): boolean => MEANINGFUL.split(' ').includes(name)
const isKnown = (name: string): boolean => isMeaningful(name) || IGNORED.split(' ').includes(name)

/** Parses DATABASE_URL; throws a SettingError that repeats no part of a password. */
export function parseDatabaseUrl(text: string): DatabaseAddress {
  try {
    return toAddress(parseConnectionUrl(text, { schemes: SCHEMES, knows: isKnown }))
  } catch (error) {
    if (!(error instanceof ConnectionUrlError)) throw error
    throw new SettingError(`DATABASE_URL ${error.message}`)
  }
}

const fail = (message: string): never => {
  throw new ConnectionUrlError(message)
}

function toAddress(url: ConnectionUrl): DatabaseAddress {
  const { query } = url
  assertUsable(query)
  const user = query.get('user') ?? url.user ?? (url.scheme === 'socket' ? 'gas' : osUser())
  const login = {
    user,
    password: query.get('password') ?? url.password,
    options: query.get('options') ?? '',
  }
  if (url.scheme === 'socket') {
    const database = query.get('db') ?? query.get('dbname') ?? 'gas'
    return { ...login, database, port: portOf(url), socketDir: () => `/${url.path}` }
  }
  if (url.path.replace(/\/$/, '').includes('/'))
    fail('must end with one name, that of the database')
  const database = query.get('dbname') ?? (url.path.replace(/\/$/, '') || user)
  const host = query.get('host') ?? url.hosts.map((one) => one.host).join(',')
  if (host.includes(',') || url.hosts.length > 1)
    fail('names several hosts: give one, that of the primary or of a proxy before them')
  if (host.startsWith('/')) {
    return { ...login, database, port: portOf(url), socketDir: () => host }
  }
  const name = (host || 'localhost').replace(/^\[(.*)\]$/, '$1')
  return { ...login, database, host: name, port: portOf(url), tls: tlsOf(query, name) }
}

function assertUsable(query: ConnectionUrl['query']): void {
  if (query.get('pgbouncer') === 'true')
    fail(
      'leads to a pooler in transaction mode (pgbouncer=true), and the station needs sessions: give the direct address, or that of a pooler in session mode',
    )
  const schema = query.get('schema') ?? 'public'
  if (schema !== 'public') fail(`names the schema ${schema}: write options=-csearch_path=${schema}`)
  const role = query.get('target_session_attrs') ?? 'any'
  if (!['any', 'read-write', 'primary'].includes(role))
    fail(`asks for a server that is ${role}, and the station writes`)
}

function portOf({ query, hosts }: ConnectionUrl): number {
  const port = Number(query.get('port') ?? hosts[0]?.port ?? 5432)
  return Number.isInteger(port) && port > 0 && port <= 65_535
    ? port
    : fail('has a port that is not from 1 to 65535')
}

function osUser(): string {
  try {
    return userInfo().username
  } catch {
    return fail('names no user')
  }
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

/** libpq's modes by the other spellings that are handed out. */
const MODES: Readonly<Record<string, string>> = {
  true: 'require',
  1: 'require',
  yes: 'require',
  on: 'require',
  'no-verify': 'require',
  accept_invalid_certs: 'require',
  strict: 'verify-full',
  false: 'disable',
  0: 'disable',
  no: 'disable',
  off: 'disable',
  allow: 'prefer',
}

/** As libpq: `require` takes any certificate, unless there is an authority to check it by. */
function tlsOf(query: ConnectionUrl['query'], host: string): DatabaseTls {
  const root = query.get('sslrootcert')
  const given =
    query.get('sslmode') ??
    query.get('sslaccept') ??
    query.get('ssl') ??
    (root === undefined ? (isLoopback(host) ? 'disable' : 'prefer') : 'verify-full')
  const mode = MODES[given] ?? given
  if (mode === 'disable' || mode === 'prefer') return mode
  const files = {
    ...(root === undefined || root === 'system' ? {} : { ca: readPem('sslrootcert', root) }),
    ...pemOf(query, 'cert', query.has('sslkey') ? 'sslcert' : 'sslidentity'),
    ...pemOf(query, 'key', 'sslkey'),
  }
  const verifiesChain = mode === 'verify-ca' || (mode === 'require' && root !== undefined)
  if (mode === 'verify-full' || root === 'system') return files
  if (verifiesChain) return { ...files, checkServerIdentity: () => undefined }
  if (mode === 'require') return { ...files, rejectUnauthorized: false }
  return fail(
    `has sslmode=${given}: it must be disable, allow, prefer, require, verify-ca or verify-full`,
  )
}

const pemOf = (query: ConnectionUrl['query'], option: 'cert' | 'key', name: string) => {
  const path = query.get(name)
  return path === undefined ? {} : { [option]: readPem(name, path) }
}

function readPem(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    return fail(`has ${name}=${path}, which cannot be read: ${code}`)
  }
}
