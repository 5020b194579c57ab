import { getAddress } from 'viem/utils'
import { isIP } from 'node:net'
import { SettingError } from '../core/setting-error.ts'
import { ConnectionUrlError, parseConnectionUrl } from '../core/validation/connection-url.ts'
import { findClosestWord } from '../core/validation/did-you-mean.ts'
import { parseDatabaseUrl } from '../persistence/postgres/database-url.ts'
import { parseRedisUrl } from '../persistence/redis/redis-address.ts'

/** Forms of settings that a pattern cannot describe, and the spellings that people use. */

/** Text for a problem of a setting: it completes the sentence "NAME …". Null without one. */
type Check = (value: string) => string | null

const SPELLINGS: Readonly<Record<string, boolean>> = {
  on: true,
  true: true,
  yes: true,
  1: true,
  off: false,
  false: false,
  no: false,
  0: false,
}

/** A switch in any of its spellings; null for another text. */
export const readSwitch = (text: string): boolean | null => SPELLINGS[text.toLowerCase()] ?? null

/** Quotes are part of a value in files that Docker and systemd read, and never meant so. */
export const isQuoted = (text: string): boolean => /^(["'`]).*\1$/s.test(text)

/** The problem of an http or https URL. */
export const checkHttpUrl: Check = (value) => {
  if (!URL.canParse(value)) return 'must be an http or https URL'
  return /^https?:$/.test(new URL(value).protocol) ? null : 'must be an http or https URL'
}

/** The problem of the address of the station itself. */
export const checkPublicUrl: Check = (value) =>
  checkHttpUrl(value) ??
  (/[?#@]/.test(value) ? 'must have no credentials, query or fragment' : null)

/** The problem of an address to listen on. */
export const checkHost: Check = (value) => {
  if (isIP(bareHost(value)) > 0 || /^[a-zA-Z0-9_]([a-zA-Z0-9_.-]*)$/.test(value)) return null
  return `must be a host name or an address, without scheme and port, not "${value}"`
}

/** An IPv6 literal may stand in brackets, as in a URL. */
export const bareHost = (host: string): string => host.replace(/^\[(.*)\]$/, '$1')

/** The address of a listener as part of a URL. A wildcard is reached at its loopback address. */
export function hostInUrl(host: string): string {
  const bare = bareHost(host)
  if (bare === '0.0.0.0') return '127.0.0.1'
  if (isIP(bare) !== 6) return bare
  return `[${bare === '::' ? '::1' : bare.replace(/%.*/, '')}]`
}

const checkBy =
  (parse: (value: string) => unknown): Check =>
  (value) => {
    try {
      parse(value)
      return null
    } catch (error) {
      if (error instanceof SettingError) return error.message.replace(/^\S+ /, '')
      if (error instanceof ConnectionUrlError) return error.message
      throw error
    }
  }

/** The problems of the servers that hold data. */
export const checkDatabaseUrl = checkBy(parseDatabaseUrl)
export const checkRedisUrl = checkBy(parseRedisUrl)

/** The address of a mail server, with its credentials encoded as its client needs them. */
export function toSmtpUrl(text: string): string {
  const form = { schemes: ['smtp', 'smtps'], knows: () => true }
  const { scheme, user, password, hosts, query } = parseConnectionUrl(text, form)
  const [server, ...more] = hosts
  if (server === undefined || server.host === '' || more.length > 0)
    throw new ConnectionUrlError('must name one host')
  const login = [user ?? '', ...(password === null ? [] : [password])].map(encodeURIComponent)
  const host = isIP(server.host) === 6 ? `[${server.host}]` : server.host
  const options = [...query].map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return [
    `${scheme}://${user === null && password === null ? '' : `${login.join(':')}@`}${host}`,
    server.port === null ? '' : `:${server.port}`,
    options.length === 0 ? '' : `/?${options.join('&')}`,
  ].join('')
}
export const checkSmtpUrl = checkBy(toSmtpUrl)

/** Names that other programs give to settings of ours. */
const FOREIGN: Readonly<Record<string, string>> = {
  PGHOST: 'DATABASE_URL',
  PGDATABASE: 'DATABASE_URL',
  POSTGRES_URL: 'DATABASE_URL',
  POSTGRESQL_URL: 'DATABASE_URL',
  DB_URL: 'DATABASE_URL',
  REDIS_HOST: 'REDIS_URL',
  BASE_URL: 'PUBLIC_URL',
  ENCRYPTION_KEY: 'MASTER_KEY',
}

/** Lines about variables that look like settings and are none. */
export function describeStrayVariables(
  names: Iterable<string>,
  known: readonly string[],
  isSet: (name: string) => boolean,
): string[] {
  const bare = new Map(known.map((name) => [toBareName(name), name]))
  return [...names].flatMap((name) => {
    if (known.includes(name) || !isSet(name)) return []
    const meant = FOREIGN[name] ?? bare.get(toBareName(name)) ?? misspelled(name, known)
    if (meant === null || isSet(meant)) return []
    return [`${name} is no setting and is not read: did you mean ${meant}?`]
  })
}

const toBareName = (name: string): string =>
  name
    .toUpperCase()
    .replace(/^(GAS_STATION|GAS)_/, '')
    .replaceAll(/[_-]/g, '')

/** Short names and those of shells are too close to each other. */
const MIN_CHARS = 7
const misspelled = (name: string, known: readonly string[]): string | null =>
  name.length < MIN_CHARS || !/^[A-Z][A-Z0-9_]*$/.test(name)
    ? null
    : findClosestWord(
        name,
        known.filter((one) => one.length >= MIN_CHARS),
      )

/** The order of secp256k1: a private key is a number below it, above zero. */
const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/** Whether text of 64 hex digits is a private key of an EVM account. */
export const isSigningKey = (value: string): boolean =>
  !/^0x[0-9a-f]{64}$/i.test(value) || (BigInt(value) > 0n && BigInt(value) < CURVE_ORDER)

/** Returns why money may not be sent to an address; null where it may (EIP-55). */
export function checkEvmAddress(value: string): string | null {
  if (!/^0x[0-9a-f]{40}$/i.test(value)) return null
  if (BigInt(value) === 0n)
    return 'must be an address of yours: nobody has the key of the zero address'
  const digits = value.slice(2)
  if (digits === digits.toLowerCase() || digits === digits.toUpperCase()) return null
  return getAddress(value.toLowerCase()) === `0x${digits}`
    ? null
    : 'is mistyped: its capital letters are not those of this address (EIP-55)'
}
