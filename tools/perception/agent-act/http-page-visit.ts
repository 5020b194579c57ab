import { ServiceError } from '../../../core/errors.ts'
import {
  RequestNotSentError,
  type EgressClient,
  type SingleHopReply,
} from '../../../providers/egress/egress-client-port.ts'
import { createCookieJar } from './cookie-jar.ts'

/** Requests of a visit, with cookies and redirects. */

export interface HttpPageVisitDeps {
  readonly egress: Pick<EgressClient, 'sendSingleHop'>
  readonly now: () => Date
  readonly signal: AbortSignal
}

export interface HttpPageVisitRequest {
  readonly method: 'GET' | 'POST'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** Follows a request through its redirects; `from` is the page it was made on. */
export type SendPageVisitRequest = (
  request: HttpPageVisitRequest,
  from: URL | null,
) => Promise<{ readonly reply: SingleHopReply; readonly url: URL }>

const MAX_PAGE_BYTES = 2 * 1024 * 1024
const MAX_REDIRECTS = 5
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const ACCEPT = 'text/html,application/xhtml+xml,*/*;q=0.8'

/** Creates a navigator with one cookie jar. Each hop is guarded like an address of the caller. */
export function createHttpPageVisit({
  egress,
  now,
  signal,
}: HttpPageVisitDeps): SendPageVisitRequest {
  const jar = createCookieJar()

  async function hop(
    request: HttpPageVisitRequest,
    from: URL | null,
    hops: number,
  ): Promise<SingleHopReply> {
    const url = new URL(request.url)
    const cookie = jar.headerFor(url)
    const origin = request.method === 'POST' ? { origin: (from ?? url).origin } : {}
    const own = cookie === null ? {} : { cookie }
    const headers = {
      accept: ACCEPT,
      ...refererTo(url, from),
      ...origin,
      ...request.headers,
      ...own,
    }
    try {
      return await egress.sendSingleHop({ ...request, headers, maxBytes: MAX_PAGE_BYTES, signal })
    } catch (error) {
      // After the first hop something has been sent.
      throw error instanceof RequestNotSentError && hops > 0 ? error.reason : error
    }
  }

  return async (first, from) => {
    let request = first
    for (let hops = 0; ; hops += 1) {
      const reply = await hop(request, from, hops)
      const url = new URL(request.url)
      jar.storeCookies(reply.cookies, url, now())
      const target = targetOf(reply, url)
      if (target === null) return { reply, url }
      if (hops === MAX_REDIRECTS) {
        const reason = 'too_many_redirects'
        throw new ServiceError('upstream_error', { host: url.hostname, reason })
      }
      request = redirected(request, reply.status, target)
    }
  }
}

function targetOf(reply: SingleHopReply, from: URL): URL | null {
  const { location } = reply.headers
  if (!REDIRECTS.has(reply.status) || location === undefined) return null
  return URL.canParse(location, from.href) ? new URL(location, from) : null
}

/** Returns the redirected request as browsers build it: after a POST a GET, except for 307 and 308. */
function redirected(
  request: HttpPageVisitRequest,
  status: number,
  target: URL,
): HttpPageVisitRequest {
  const url = urlWithoutFragment(target)
  if (status === 307 || status === 308) return { ...request, url }
  return { method: 'GET', url, headers: {} }
}

export function urlWithoutFragment(url: URL): string {
  const copy = new URL(url)
  copy.hash = ''
  return copy.href
}

/** Returns the referrer: the origin only for another origin, and none from HTTPS to HTTP. */
function refererTo(url: URL, from: URL | null): { referer?: string } {
  if (from === null || (from.protocol === 'https:' && url.protocol === 'http:')) return {}
  return { referer: from.origin === url.origin ? urlWithoutFragment(from) : `${from.origin}/` }
}
