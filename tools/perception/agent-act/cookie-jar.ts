import { isIP } from 'node:net'

/** Cookies of one visit. */

interface Cookie {
  readonly name: string
  readonly value: string
  readonly domain: string
  readonly hostOnly: boolean
  readonly path: string
  readonly secure: boolean
}

/** The cookies of one visit: the part of RFC 6265 that a visit of seconds needs. */
export interface CookieJar {
  /** Stores the cookies that a response from this URL sets. */
  storeCookies(lines: readonly string[], url: URL, now: Date): void
  /** Returns the `cookie` header for this URL, or null. */
  headerFor(url: URL): string | null
}

const MAX_COOKIES = 100
const MAX_COOKIE_CHARS = 4_096
const NAME = /^[^\s;=,\p{Cc}]{1,256}$/u
const VALUE = /^[\x21-\x7e\x80-\xff ]*$/

export function createCookieJar(): CookieJar {
  const cookies = new Map<string, Cookie>()

  function keepOne(line: string, url: URL, now: Date): void {
    if (line.length > MAX_COOKIE_CHARS) return
    const [pair = '', ...rest] = line.split(';')
    const at = pair.indexOf('=')
    const [name, value] = [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
    if (at < 1 || !NAME.test(name) || !VALUE.test(value)) return
    const attributes = new Map(rest.map(attributeOf))
    const host = url.hostname.toLowerCase()
    const domain = attributes.get('domain')?.replace(/^\./, '').toLowerCase() ?? ''
    const secure = attributes.has('secure')
    if (secure && url.protocol !== 'https:') return
    if (domain !== '' && !cookieDomainMatches(domain, host)) return
    const path = pathOf(attributes.get('path'), url)
    const hostOnly = domain === '' || isPublicSuffix(domain)
    const cookie = { name, value, domain: hostOnly ? host : domain, hostOnly, path, secure }
    const key = JSON.stringify([name, cookie.domain, path])
    cookies.delete(key)
    if (!isExpired(attributes, now) && cookies.size < MAX_COOKIES) cookies.set(key, cookie)
  }

  return {
    storeCookies(lines, url, now) {
      for (const line of lines.slice(0, MAX_COOKIES)) keepOne(line, url, now)
    },
    headerFor(url) {
      const host = url.hostname.toLowerCase()
      const sent = [...cookies.values()].filter(
        ({ domain, hostOnly, path, secure }) =>
          (host === domain || (!hostOnly && host.endsWith(`.${domain}`))) &&
          pathMatches(path, url.pathname) &&
          (!secure || url.protocol === 'https:'),
      )
      if (sent.length === 0) return null
      const ordered = sent.sort((a, b) => b.path.length - a.path.length)
      return ordered.map(({ name, value }) => `${name}=${value}`).join('; ')
    },
  }
}

function attributeOf(text: string): [name: string, value: string] {
  const at = text.indexOf('=')
  const [name, value] = at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
  return [name.trim().toLowerCase(), value.trim()]
}

/** Returns whether a host is within a cookie domain; false for IP addresses and top-level domains. */
const cookieDomainMatches = (domain: string, host: string): boolean =>
  host === domain || (isIP(host) === 0 && domain.includes('.') && host.endsWith(`.${domain}`))

/**
 * Matches suffixes like `co.uk` and `com.au`, whose cookies are limited to the host. This is no full public
 * suffix list.
 */
const isPublicSuffix = (domain: string): boolean => /^[a-z]{2,3}\.[a-z]{2}$/.test(domain)

function pathOf(given: string | undefined, url: URL): string {
  if (given?.startsWith('/') === true) return given
  const end = url.pathname.lastIndexOf('/')
  return end <= 0 ? '/' : url.pathname.slice(0, end)
}

const pathMatches = (path: string, requestPath: string): boolean =>
  requestPath === path ||
  (requestPath.startsWith(path) && (path.endsWith('/') || requestPath[path.length] === '/'))

function isExpired(attributes: ReadonlyMap<string, string>, now: Date): boolean {
  const age = attributes.get('max-age')
  if (age !== undefined && /^-?\d+$/.test(age)) return Number(age) <= 0
  const expires = Date.parse(attributes.get('expires') ?? '')
  return expires <= now.getTime()
}
