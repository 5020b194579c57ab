import { isIP } from 'node:net'
import { fetch, type Agent, type Response } from 'undici'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { isPublicIpAddress, type EgressPrivateIpAllowlist } from './public-ip-address.ts'
import { toFetchError } from './fetch-errors-and-body-limit.ts'
import { parseFetchableUrl } from './guarded-egress-client.ts'
import { createGuardedHttpAgent } from './guarded-http-agent.ts'
import { createDnsResolver, type DnsAddressResolver } from './dns-resolver.ts'

/** Posts to URLs chosen by callers, such as webhooks. */

export interface GuardedPostRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly signal: AbortSignal
}

/** Posts to URLs of callers under the same guard as all egress. */
export interface GuardedPostClient {
  /**
   * Throws `blocked_url` for a forbidden address: by its spelling and, where its name resolves, by its
   * addresses.
   */
  check(url: string): Promise<void>
  /** The same check by spelling only; `pointer` is the field of the URL. */
  checkWithoutDns(url: string, pointer: string): void
  /**
   * Returns the response status without following redirects. The body is read up to a limit and discarded.
   * Rejects with a ServiceError when no response arrives in time.
   */
  send(request: GuardedPostRequest): Promise<number>
  close(): Promise<void>
}

export interface GuardedPostClientSettings {
  readonly allow: EgressPrivateIpAllowlist
  readonly resolve?: DnsAddressResolver
  readonly userAgent: string
  /** Limit of a whole attempt, connection and response. */
  readonly timeoutMs: number
  /** Limit of a response body before its connection is closed. */
  readonly maxBytes: number
  /** Concurrent connections per origin. */
  readonly connections: number
}

export function createGuardedPostClient(settings: GuardedPostClientSettings): GuardedPostClient {
  const { allow, timeoutMs, resolve = createDnsResolver() } = settings
  const timeouts = { connectMs: 3 * SECOND, headersMs: timeoutMs, bodyMs: timeoutMs }
  const agent = createGuardedHttpAgent(allow, resolve, timeouts, settings.connections)
  return {
    async check(url) {
      const { hostname: host, port, protocol } = parseFetchableUrl(url, allow)
      if (isIP(host.replace(/^\[|\]$/g, '')) !== 0) return
      const at = Number(port) || (protocol === 'https:' ? 443 : 80)
      // An unknown name may resolve by the first delivery.
      const addresses = await resolve(host).catch(() => [])
      if (!addresses.every(({ address }) => isPublicIpAddress(address) || allow(address, at)))
        throw new ServiceError('blocked_url', { host, reason: 'address' })
    },
    checkWithoutDns(url, pointer) {
      try {
        parseFetchableUrl(url, allow)
      } catch (error) {
        if (!(error instanceof ServiceError) || error.code !== 'blocked_url') throw error
        const errors = [{ pointer, detail: 'names an address that may not be reached' }]
        throw new ServiceError(error.code, { ...error.details, errors }, error)
      }
    },
    async send(request) {
      parseFetchableUrl(request.url, allow)
      return sendPost(agent, request, settings)
    },
    close: () => agent.destroy(),
  }
}

async function sendPost(
  agent: Agent,
  { url, headers, body, signal: given }: GuardedPostRequest,
  { userAgent, timeoutMs, maxBytes }: GuardedPostClientSettings,
): Promise<number> {
  const timeout = AbortSignal.timeout(timeoutMs)
  const signal = AbortSignal.any([given, timeout])
  const host = new URL(url).hostname
  try {
    const response = await fetch(url, {
      method: 'POST',
      dispatcher: agent,
      redirect: 'manual',
      signal,
      headers: { ...headers, 'user-agent': userAgent },
      body,
    })
    await discardBody(response, maxBytes)
    return response.status
  } catch (error) {
    if (given.aborted) throw given.reason
    if (timeout.aborted) throw new ServiceError('upstream_timeout', { host }, error)
    throw toFetchError(error, { host })
  }
}

/** The status suffices: a body that is too large or endless only costs its connection. */
async function discardBody(response: Response, maxBytes: number): Promise<void> {
  let size = 0
  try {
    for await (const piece of response.body ?? []) {
      size += (piece as Uint8Array).byteLength
      if (size > maxBytes) return
    }
  } catch {
    return
  }
}
