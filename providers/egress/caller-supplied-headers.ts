import { invalidInputError } from '../../core/errors.ts'
import type { KeyringSecretResolver } from './egress-client-port.ts'

/** Request headers given by callers, with secrets of their keyring. */

const MAX_CALLER_HEADERS = 32
const MAX_HEADER_VALUE_CHARS = 8_192
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,64}$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const KEYRING_REFERENCE = /\{\{keyring\.([A-Za-z0-9_.-]{1,64})\}\}/g

/** Headers also sent to another origin: they describe the content, not the caller. */
const CROSS_ORIGIN_HEADERS = new Set([
  'accept',
  'accept-language',
  'cache-control',
  'if-modified-since',
  'range',
])
const SAME_ORIGIN_HEADERS = new Set([
  'authorization',
  'cookie',
  'if-match',
  'if-none-match',
  'if-range',
])
const FORWARDING_HEADER =
  /^x-(forwarded|real-ip|client-ip|cluster-client|original|envoy|http-method|rewrite|host)/
const CREDENTIAL_HEADER = /^x-|(^|-)(api-?key|key|token|version|id|secret|organization|project)$/

/** Validated headers of the caller; values still contain secret references. */
export type CallerSuppliedHeaders = ReadonlyMap<string, string>

/** Throws for any header outside the allow list: none may control the connection or claim an origin. */
export function parseCallerSuppliedHeaders(
  headers: Readonly<Record<string, string>>,
): CallerSuppliedHeaders {
  const entries = Object.entries(headers)
  if (entries.length > MAX_CALLER_HEADERS)
    throw invalidInputError('/headers', `has more than ${MAX_CALLER_HEADERS} fields`)
  const checked = new Map<string, string>()
  for (const [given, value] of entries) {
    const name = given.toLowerCase()
    if (!isSettableHeader(name)) throw invalidInputError(headerPointer(given), 'may not be set')
    if (checked.has(name)) throw invalidInputError(headerPointer(given), 'is given twice')
    if (!isHeaderValue(value))
      throw invalidInputError(headerPointer(given), 'is not a header value')
    checked.set(name, value)
  }
  return checked
}

function isSettableHeader(name: string): boolean {
  if (!HEADER_NAME.test(name) || name.startsWith('proxy-') || FORWARDING_HEADER.test(name))
    return false
  return (
    CROSS_ORIGIN_HEADERS.has(name) || SAME_ORIGIN_HEADERS.has(name) || CREDENTIAL_HEADER.test(name)
  )
}

const isHeaderValue = (value: unknown): boolean =>
  typeof value === 'string' && value.length <= MAX_HEADER_VALUE_CHARS && HEADER_VALUE.test(value)

const headerPointer = (name: string): string =>
  `/headers/${name.replace(/~/g, '~0').replace(/\//g, '~1')}`

export interface RedirectHop {
  readonly url: URL
  /** The URL given by the caller; equal to the hop when it is the first. */
  readonly first: URL
}

/** Headers of one hop with resolved secrets, and the secrets used. */
export interface RedirectHopHeaders {
  readonly headers: Record<string, string>
  readonly usedSecrets: readonly string[]
}

/**
 * Substitutes `{{keyring.NAME}}` for the host of this hop. Secrets go only to the origin that the caller
 * named; a redirect to another origin gets neutral headers only (decision 156).
 */
export async function resolveKeyringHeadersForHop(
  checked: CallerSuppliedHeaders,
  secrets: KeyringSecretResolver | undefined,
  hop: RedirectHop,
): Promise<RedirectHopHeaders> {
  const headers: Record<string, string> = {}
  const usedSecrets: string[] = []
  const sameOrigin = hop.url.origin === hop.first.origin
  for (const [name, template] of checked) {
    const names = [...template.matchAll(KEYRING_REFERENCE)].map(([, secret = '']) => secret)
    if (names.length === 0) {
      if (sameOrigin || CROSS_ORIGIN_HEADERS.has(name)) headers[name] = template
      continue
    }
    if (!sameOrigin) continue
    const values = await resolveSecretValues(names, secrets, hop.url.host)
    const missing = names.find((secret) => values.get(secret) === undefined)
    if (missing === undefined) {
      headers[name] = template.replace(
        KEYRING_REFERENCE,
        (_, secret: string) => values.get(secret) ?? '',
      )
      usedSecrets.push(...values.values())
      if (!isHeaderValue(headers[name]))
        throw invalidInputError(
          headerPointer(name),
          'contains a secret that is invalid in a header',
        )
    } else throw secretNotForHostError(name, missing, hop.url.host)
  }
  return { headers, usedSecrets }
}

async function resolveSecretValues(
  names: readonly string[],
  secrets: KeyringSecretResolver | undefined,
  host: string,
) {
  const values = new Map<string, string>()
  for (const name of new Set(names)) {
    const value = (await secrets?.resolve(name, host)) ?? null
    if (value !== null) values.set(name, value)
  }
  return values
}

const secretNotForHostError = (header: string, secret: string, host: string) =>
  invalidInputError(
    headerPointer(header),
    `names the keyring secret "${secret}", which does not exist or may not be sent to ${host}`,
  )
