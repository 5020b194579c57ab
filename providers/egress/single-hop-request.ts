import { subscribe } from 'node:diagnostics_channel'
import { fetch, type Agent } from 'undici'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import {
  RequestNotSentError,
  type SingleHopRequest,
  type SingleHopReply,
} from './egress-client-port.ts'
import { toFetchError, readLimitedBody } from './fetch-errors-and-body-limit.ts'

/** Sends one guarded request without redirects. */

const SINGLE_HOP_TIMEOUT_MS = 15 * SECOND
/**
 * Errors before a connection was established: DNS, refusal, timeout, certificate. Their codes alone do not
 * differ from those of a connection that broke during a request.
 */
const connectErrors = new WeakSet<object>()
subscribe('undici:client:connectError', (message) => {
  const { error } = message as { error: unknown }
  if (error instanceof Error) connectErrors.add(error)
})

export interface SingleHopDeps {
  readonly agent: Agent
  /** Parses a URL; throws for one that its spelling forbids. */
  readonly check: (url: string) => URL
  readonly userAgent: string
}

/** Sends one request of any method through the guard, as `EgressClient.sendSingleHop` specifies. */
export async function sendSingleHopRequest(
  request: SingleHopRequest,
  deps: SingleHopDeps,
): Promise<SingleHopReply> {
  const {
    method,
    headers,
    body,
    maxBytes,
    timeoutMs = SINGLE_HOP_TIMEOUT_MS,
    signal: given,
  } = request
  const url = checkUrlBeforeSending(request.url, deps)
  const timeout = AbortSignal.timeout(timeoutMs)
  const signal = AbortSignal.any([given, timeout])
  const { hostname: host } = url
  try {
    const response = await fetch(url, {
      method,
      dispatcher: deps.agent,
      redirect: 'manual',
      signal,
      headers: { ...headers, 'user-agent': deps.userAgent },
      ...(body === undefined ? {} : { body }),
    })
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      cookies: response.headers.getSetCookie(),
      body: await readLimitedBody(response, maxBytes),
      url: url.href,
    }
  } catch (error) {
    if (given.aborted) throw given.reason
    if (timeout.aborted) throw new ServiceError('upstream_timeout', { host }, error)
    const reason = toFetchError(error, { host })
    const unsent = isConnectError(error) || isBlockedUrlError(reason)
    throw reason instanceof ServiceError && unsent ? new RequestNotSentError(reason) : reason
  }
}

function checkUrlBeforeSending(url: string, { check }: SingleHopDeps): URL {
  try {
    return check(url)
  } catch (error) {
    throw error instanceof ServiceError ? new RequestNotSentError(error) : error
  }
}

const isBlockedUrlError = (reason: unknown): boolean =>
  reason instanceof ServiceError && reason.code === 'blocked_url'

function isConnectError(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (connectErrors.has(cause)) return true
  return false
}
