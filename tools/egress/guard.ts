import { isIP } from 'node:net'
import { fetch, type Agent, type Response } from 'undici'
import { SECOND } from '../../core/clock.ts'
import { invalid, ServiceError } from '../../core/errors.ts'
import type { Allow } from './address.ts'
import { isMetadataName, isPublic } from './address.ts'
import type { Egress, EgressReply, EgressRequest } from './egress.ts'
import { visitOnce } from './visit.ts'
import type { Patience } from './guarded-agent.ts'
import { guardedAgent } from './guarded-agent.ts'
import { blocked, explainFetch, readAtMost } from './failure.ts'
import type { CheckedHeaders, HopHeaders } from './headers.ts'
import { checkHeaders, hopHeaders } from './headers.ts'
import { isWebPort } from './ports.ts'
import { redaction } from './redaction.ts'
import type { ResolveAll } from './resolver.ts'
import { dnsResolver } from './resolver.ts'

export interface EgressSettings {
  /** Private addresses that may be reached all the same; none in production. */
  readonly allow?: Allow
  readonly resolve?: ResolveAll
  readonly patience?: Partial<Patience>
  readonly userAgent: string
}

const PATIENCE: Patience = { connectMs: 3 * SECOND, headersMs: 10 * SECOND, bodyMs: 10 * SECOND }
const TOTAL_MS = 15 * SECOND
const MOST_REDIRECTS = 5
const REDIRECTS = new Set([301, 302, 303, 307, 308])

/** The guarded way out, and its end. */
export interface ClosableEgress extends Egress {
  close(): Promise<void>
}

export function createEgress(settings: EgressSettings): ClosableEgress {
  const allow = settings.allow ?? (() => false)
  const patience = { ...PATIENCE, ...settings.patience }
  const agent = guardedAgent(allow, settings.resolve ?? dnsResolver(), patience)
  const check = (url: string) => checkUrl(url, allow)
  return {
    async preflight({ url, headers, secrets }) {
      const first = checkUrl(url, allow)
      await hopHeaders(checkHeaders(headers ?? {}), secrets, { url: first, first })
    },
    fetch: (request) => new Journey(request, { agent, allow, userAgent: settings.userAgent }).run(),
    visit: (request) => visitOnce(request, { agent, check, userAgent: settings.userAgent }),
    close: () => agent.destroy(),
  }
}

interface Means {
  readonly agent: Agent
  readonly allow: Allow
  readonly userAgent: string
}

/** One request with its redirects: every hop is checked as if the caller had named it. */
class Journey {
  readonly #request: EgressRequest
  readonly #means: Means
  readonly #timeout: AbortSignal
  readonly #signal: AbortSignal
  readonly #secretsSent = new Set<string>()

  constructor(request: EgressRequest, means: Means) {
    this.#request = request
    this.#means = means
    this.#timeout = AbortSignal.timeout(request.timeoutMs ?? TOTAL_MS)
    this.#signal = AbortSignal.any([request.signal, this.#timeout])
  }

  async run(): Promise<EgressReply> {
    const { url, headers, maxRedirects = MOST_REDIRECTS } = this.#request
    const first = checkUrl(url, this.#means.allow)
    const checked = checkHeaders(headers ?? {})
    let at = first
    for (let hops = 0; ; hops += 1) {
      const response = await this.#hop(at, first, checked)
      const target = targetOf(response, at)
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

  /** Whoever was sent a secret may not send it on: not in a header, and not in an address. */
  #next(target: string, from: URL): URL {
    const next = checkUrl(target, this.#means.allow)
    if (next.origin !== from.origin && redaction(this.#secretsSent).holds(next.href))
      throw new ServiceError('upstream_error', {
        host: from.hostname,
        reason: 'redirect_carries_secret',
      })
    return next
  }

  async #hop(url: URL, first: URL, checked: CheckedHeaders): Promise<Response> {
    const { headers, used }: HopHeaders = await hopHeaders(checked, this.#request.secrets, {
      url,
      first,
    })
    for (const secret of used) this.#secretsSent.add(secret)
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
    // A server that echoes headers must not carry a secret into outputs and stored answers.
    const clean = redaction(this.#secretsSent)
    try {
      const body = clean.bytes(await readAtMost(response, this.#request.maxBytes))
      const headers = Object.fromEntries(
        [...response.headers].map(([name, value]) => [clean.text(name), clean.text(value)]),
      )
      return { status: response.status, headers, body, url: clean.text(url.href) }
    } catch (error) {
      throw this.#explain(error, url)
    }
  }

  #explain(error: unknown, { hostname: host }: URL): unknown {
    if (this.#request.signal.aborted) return this.#request.signal.reason
    if (this.#timeout.aborted) return new ServiceError('upstream_timeout', { host }, error)
    return explainFetch(error, { host })
  }
}

/** Scheme, userinfo, port and literal addresses; names are checked where they are connected. */
export function checkUrl(text: string, allow: Allow): URL {
  if (!URL.canParse(text)) throw invalid('/url', 'must be an absolute URL')
  const url = new URL(text)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const refuse = (reason: Parameters<typeof blocked>[0]) => blocked(reason, { host })
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refuse('scheme')
  if (url.username !== '' || url.password !== '') throw refuse('userinfo')
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  const literal = isIP(host) !== 0
  if (literal && allow(host, port)) return url
  if (!isWebPort(port)) throw refuse('port')
  if (literal ? !isPublic(host) : isMetadataName(host)) throw refuse('address')
  return url
}

function targetOf(response: Response, from: URL): string | null {
  const location = response.headers.get('location')
  if (!REDIRECTS.has(response.status) || location === null) return null
  return URL.canParse(location, from.href) ? new URL(location, from).href : null
}
