import { isIP } from 'node:net'
import { fetch, type Agent, type Response } from 'undici'
import { SECOND } from '../../core/clock.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import type { EgressPrivateIpAllowlist } from './public-ip-address.ts'
import { isMetadataHostname, isPublicIpAddress } from './public-ip-address.ts'
import type { EgressClient, EgressReply, EgressRequest } from './egress-client-port.ts'
import { sendSingleHopRequest } from './single-hop-request.ts'
import type { OutboundHttpTimeouts } from './guarded-http-agent.ts'
import { createGuardedHttpAgent } from './guarded-http-agent.ts'
import { blockedUrlError, toFetchError, readLimitedBody } from './fetch-errors-and-body-limit.ts'
import type { CallerSuppliedHeaders, RedirectHopHeaders } from './caller-supplied-headers.ts'
import {
  parseCallerSuppliedHeaders,
  resolveKeyringHeadersForHop,
} from './caller-supplied-headers.ts'
import { isFetchableTcpPort } from './fetchable-tcp-ports.ts'
import { createSecretRedactor } from './caller-secret-response-redactor.ts'
import type { DnsAddressResolver } from './dns-resolver.ts'
import { createDnsResolver } from './dns-resolver.ts'

/** The egress client: fetches URLs of callers, limited to public addresses. */

export interface EgressClientSettings {
  /** Private addresses allowed in development; none in production. */
  readonly allow?: EgressPrivateIpAllowlist
  readonly resolve?: DnsAddressResolver
  readonly timeouts?: Partial<OutboundHttpTimeouts>
  readonly userAgent: string
  /** Concurrent connections per origin; 16 by default. */
  readonly connections?: number
}

const DEFAULT_CONNECTION_TIMEOUTS: OutboundHttpTimeouts = {
  connectMs: 3 * SECOND,
  headersMs: 10 * SECOND,
  bodyMs: 10 * SECOND,
}
const REDIRECTED_FETCH_TIMEOUT_MS = 15 * SECOND
const MAX_REDIRECTS = 5
const REDIRECT_STATUSES = new Set([301, 302, 303, 307, 308])

/** An egress client that can be closed. */
export interface ClosableEgressClient extends EgressClient {
  close(): Promise<void>
}

export function createEgressClient(settings: EgressClientSettings): ClosableEgressClient {
  const allow = settings.allow ?? (() => false)
  const timeouts = { ...DEFAULT_CONNECTION_TIMEOUTS, ...settings.timeouts }
  const { resolve = createDnsResolver(), connections } = settings
  const agent = createGuardedHttpAgent(allow, resolve, timeouts, connections)
  const check = (url: string) => parseFetchableUrl(url, allow)
  return {
    async preflight({ url, headers, secrets }) {
      const first = parseFetchableUrl(url, allow)
      await resolveKeyringHeadersForHop(parseCallerSuppliedHeaders(headers ?? {}), secrets, {
        url: first,
        first,
      })
    },
    fetch: (request) =>
      new RedirectedFetch(request, { agent, allow, userAgent: settings.userAgent }).run(),
    sendSingleHop: (request) =>
      sendSingleHopRequest(request, { agent, check, userAgent: settings.userAgent }),
    close: () => agent.destroy(),
  }
}

interface RedirectedFetchDeps {
  readonly agent: Agent
  readonly allow: EgressPrivateIpAllowlist
  readonly userAgent: string
}

/** A request with its redirects; every hop is checked like the caller's own URL. */
class RedirectedFetch {
  readonly #request: EgressRequest
  readonly #means: RedirectedFetchDeps
  readonly #timeout: AbortSignal
  readonly #signal: AbortSignal
  readonly #secretsSent = new Set<string>()

  constructor(request: EgressRequest, means: RedirectedFetchDeps) {
    this.#request = request
    this.#means = means
    this.#timeout = AbortSignal.timeout(request.timeoutMs ?? REDIRECTED_FETCH_TIMEOUT_MS)
    this.#signal = AbortSignal.any([request.signal, this.#timeout])
  }

  async run(): Promise<EgressReply> {
    const { url, headers, maxRedirects = MAX_REDIRECTS } = this.#request
    const first = parseFetchableUrl(url, this.#means.allow)
    const checked = parseCallerSuppliedHeaders(headers ?? {})
    let at = first
    for (let hops = 0; ; hops += 1) {
      const response = await this.#hop(at, first, checked)
      const target = redirectTarget(response, at)
      if (target === null || maxRedirects === 0) return this.#reply(response, at)
      await response.body?.cancel()
      if (hops === maxRedirects) {
        throw new ServiceError('upstream_error', {
          host: at.hostname,
          reason: 'too_many_redirects',
        })
      }
      at = this.#next(target, at)
    }
  }

  /** A server must not redirect with a secret that it received, neither in a header nor in the URL. */
  #next(target: string, from: URL): URL {
    const next = parseFetchableUrl(target, this.#means.allow)
    if (
      next.origin !== from.origin &&
      createSecretRedactor(this.#secretsSent).containsSecret(next.href)
    )
      throw new ServiceError('upstream_error', {
        host: from.hostname,
        reason: 'redirect_carries_secret',
      })
    return next
  }

  async #hop(url: URL, first: URL, checked: CallerSuppliedHeaders): Promise<Response> {
    const { headers, usedSecrets }: RedirectHopHeaders = await resolveKeyringHeadersForHop(
      checked,
      this.#request.secrets,
      {
        url,
        first,
      },
    )
    for (const secret of usedSecrets) this.#secretsSent.add(secret)
    const { agent, userAgent } = this.#means
    try {
      return await fetch(url, {
        dispatcher: agent,
        redirect: 'manual',
        signal: this.#signal,
        headers: { accept: '*/*', ...headers, 'user-agent': userAgent },
      })
    } catch (error) {
      throw this.#explain(error, url)
    }
  }

  async #reply(response: Response, url: URL): Promise<EgressReply> {
    // A server that echoes headers must not put a secret into outputs and stored responses.
    const clean = createSecretRedactor(this.#secretsSent)
    try {
      const body = clean.redactBytes(await readLimitedBody(response, this.#request.maxBytes))
      const headers = Object.fromEntries(
        [...response.headers].map(([name, value]) => [
          clean.redactText(name),
          clean.redactText(value),
        ]),
      )
      return { status: response.status, headers, body, url: clean.redactText(url.href) }
    } catch (error) {
      throw this.#explain(error, url)
    }
  }

  #explain(error: unknown, { hostname: host }: URL): unknown {
    if (this.#request.signal.aborted) return this.#request.signal.reason
    if (this.#timeout.aborted) return new ServiceError('upstream_timeout', { host }, error)
    return toFetchError(error, { host })
  }
}

/** Parses a URL and checks scheme, userinfo, port and literal addresses; names are checked on connection. */
export function parseFetchableUrl(text: string, allow: EgressPrivateIpAllowlist): URL {
  if (!URL.canParse(text)) throw invalidInputError('/url', 'must be an absolute URL')
  const url = new URL(text)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const refuse = (reason: Parameters<typeof blockedUrlError>[0]) =>
    blockedUrlError(reason, { host })
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refuse('scheme')
  if (url.username !== '' || url.password !== '') throw refuse('userinfo')
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  const literal = isIP(host) !== 0
  if (literal && allow(host, port)) return url
  if (!isFetchableTcpPort(port)) throw refuse('port')
  if (literal ? !isPublicIpAddress(host) : isMetadataHostname(host)) throw refuse('address')
  return url
}

function redirectTarget(response: Response, from: URL): string | null {
  const location = response.headers.get('location')
  if (!REDIRECT_STATUSES.has(response.status) || location === null) return null
  return URL.canParse(location, from.href) ? new URL(location, from).href : null
}
