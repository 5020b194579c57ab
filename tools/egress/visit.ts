import { subscribe } from 'node:diagnostics_channel'
import { fetch, type Agent } from 'undici'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { NotSent, type EgressVisit, type VisitReply } from './egress.ts'
import { explainFetch, readAtMost } from './failure.ts'

const TOTAL_MS = 15 * SECOND
/**
 * What connections failed of before they stood: names, refusals, timeouts, certificates. By their codes
 * alone they cannot be told from a connection that broke with a request on it.
 */
const unconnected = new WeakSet<object>()
subscribe('undici:client:connectError', (message) => {
  const { error } = message as { error: unknown }
  if (error instanceof Error) unconnected.add(error)
})

export interface VisitMeans {
  readonly agent: Agent
  /** Refuses an address by its spelling. */
  readonly check: (url: string) => URL
  readonly userAgent: string
}

/** One request of any method through the guard, as `Egress.visit` promises. */
export async function visitOnce(request: EgressVisit, means: VisitMeans): Promise<VisitReply> {
  const { method, headers, body, maxBytes, timeoutMs = TOTAL_MS, signal: given } = request
  const url = checked(request.url, means)
  const timeout = AbortSignal.timeout(timeoutMs)
  const signal = AbortSignal.any([given, timeout])
  const { hostname: host } = url
  try {
    const response = await fetch(url, {
      method,
      dispatcher: means.agent,
      redirect: 'manual',
      signal,
      headers: { ...headers, 'user-agent': means.userAgent },
      ...(body === undefined ? {} : { body }),
    })
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      cookies: response.headers.getSetCookie(),
      body: await readAtMost(response, maxBytes),
      url: url.href,
    }
  } catch (error) {
    if (given.aborted) throw given.reason
    if (timeout.aborted) throw new ServiceError('upstream_timeout', { host }, error)
    const reason = explainFetch(error, { host })
    const unsent = isUnconnected(error) || isRefused(reason)
    throw reason instanceof ServiceError && unsent ? new NotSent(reason) : reason
  }
}

function checked(url: string, { check }: VisitMeans): URL {
  try {
    return check(url)
  } catch (error) {
    throw error instanceof ServiceError ? new NotSent(error) : error
  }
}

const isRefused = (reason: unknown): boolean =>
  reason instanceof ServiceError && reason.code === 'blocked_url'

function isUnconnected(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (unconnected.has(cause)) return true
  return false
}
