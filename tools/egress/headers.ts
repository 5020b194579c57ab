import { invalid } from '../../core/errors.ts'
import type { Secrets } from './egress.ts'

const MOST_HEADERS = 32
const LONGEST_VALUE = 8_192
const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,64}$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const SECRET = /\{\{keyring\.([A-Za-z0-9_.-]{1,64})\}\}/g

/** Sent on to another origin too: they say what is wanted, not who asks. */
const NEUTRAL = new Set([
  'accept',
  'accept-language',
  'cache-control',
  'if-modified-since',
  'range',
])
const PERSONAL = new Set(['authorization', 'cookie', 'if-match', 'if-none-match', 'if-range'])
const FORWARDING =
  /^x-(forwarded|real-ip|client-ip|cluster-client|original|envoy|http-method|rewrite|host)/
const CREDENTIAL = /^x-|(^|-)(api-?key|key|token|version|id|secret|organization|project)$/

/** A header list of the caller, checked; values still name their secrets. */
export type CheckedHeaders = ReadonlyMap<string, string>

/** Refuses every header that is not on the list: none may steer the connection or claim an origin. */
export function checkHeaders(headers: Readonly<Record<string, string>>): CheckedHeaders {
  const entries = Object.entries(headers)
  if (entries.length > MOST_HEADERS)
    throw invalid('/headers', `has more than ${MOST_HEADERS} fields`)
  const checked = new Map<string, string>()
  for (const [given, value] of entries) {
    const name = given.toLowerCase()
    if (!mayBeSet(name)) throw invalid(pointerTo(given), 'may not be set')
    if (checked.has(name)) throw invalid(pointerTo(given), 'is given twice')
    if (!isValue(value)) throw invalid(pointerTo(given), 'is not a header value')
    checked.set(name, value)
  }
  return checked
}

function mayBeSet(name: string): boolean {
  if (!NAME.test(name) || name.startsWith('proxy-') || FORWARDING.test(name)) return false
  return NEUTRAL.has(name) || PERSONAL.has(name) || CREDENTIAL.test(name)
}

const isValue = (value: unknown): boolean =>
  typeof value === 'string' && value.length <= LONGEST_VALUE && VALUE.test(value)

const pointerTo = (name: string): string =>
  `/headers/${name.replace(/~/g, '~0').replace(/\//g, '~1')}`

export interface Hop {
  readonly url: URL
  /** The address the caller named; the hop itself when it is the first. */
  readonly first: URL
}

/** The headers of one hop with their secrets in place, and the secrets that were used. */
export interface HopHeaders {
  readonly headers: Record<string, string>
  readonly used: readonly string[]
}

/**
 * Substitutes `{{keyring.NAME}}` for the host of this hop. A secret is used for the origin that the
 * caller named: to another one a redirect leads without it, and with neutral headers only (decision 156).
 */
export async function hopHeaders(
  checked: CheckedHeaders,
  secrets: Secrets | undefined,
  hop: Hop,
): Promise<HopHeaders> {
  const headers: Record<string, string> = {}
  const used: string[] = []
  const sameOrigin = hop.url.origin === hop.first.origin
  for (const [name, template] of checked) {
    const names = [...template.matchAll(SECRET)].map(([, secret = '']) => secret)
    if (names.length === 0) {
      if (sameOrigin || NEUTRAL.has(name)) headers[name] = template
      continue
    }
    if (!sameOrigin) continue
    const values = await valuesOf(names, secrets, hop.url.host)
    const missing = names.find((secret) => values.get(secret) === undefined)
    if (missing === undefined) {
      headers[name] = template.replace(SECRET, (_, secret: string) => values.get(secret) ?? '')
      used.push(...values.values())
      if (!isValue(headers[name]))
        throw invalid(pointerTo(name), 'holds a secret no header can carry')
    } else throw notForHost(name, missing, hop.url.host)
  }
  return { headers, used }
}

async function valuesOf(names: readonly string[], secrets: Secrets | undefined, host: string) {
  const values = new Map<string, string>()
  for (const name of new Set(names)) {
    const value = (await secrets?.resolve(name, host)) ?? null
    if (value !== null) values.set(name, value)
  }
  return values
}

const notForHost = (header: string, secret: string, host: string) =>
  invalid(
    pointerTo(header),
    `names the keyring secret "${secret}", which does not exist or may not be sent to ${host}`,
  )
