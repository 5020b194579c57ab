import { isIP } from 'node:net'
import type { Clock } from '../../core/clock.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type {
  EndpointProbeResult,
  PaymentRequiredTerms,
} from '../../domain/payable-endpoint-offers.ts'
import { RequestNotSentError, type EgressClient } from '../egress/egress-client-port.ts'
import { parseFetchableUrl } from '../egress/guarded-egress-client.ts'
import type { EgressPrivateIpAllowlist } from '../egress/public-ip-address.ts'

/** Asks an address once, without paying, what it wants to be paid. */

const PROBE_TIMEOUT_MS = 10_000
const MAX_URL_CHARS = 2_048

export interface EndpointProbeDeps {
  readonly egress: Pick<EgressClient, 'sendSingleHop'>
  readonly clock: Pick<Clock, 'now' | 'mono'>
  /** Reads the offers of a response. */
  readonly readDemand: (response: {
    readonly status: number
    readonly headers: Readonly<Record<string, string>>
    readonly body: Uint8Array
  }) => PaymentRequiredTerms
}

/**
 * Sends one GET without redirects, credentials or a body. Throws `blocked_url` for an address that must not be
 * probed; a server that does not answer is a result.
 */
export type ProbeEndpoint = (url: URL, signal: AbortSignal) => Promise<EndpointProbeResult>

export function createEndpointProbe(deps: EndpointProbeDeps): ProbeEndpoint {
  const { egress, clock, readDemand } = deps
  return async (url, signal) => {
    const started = clock.mono()
    const outcome = await sendProbe(egress, url, signal).catch(toFailedProbe)
    const latencyMs = Math.round(clock.mono() - started)
    const base = { url: url.href, latencyMs, at: clock.now() }
    if ('status' in outcome) return { ...base, ...readDemand(outcome), status: outcome.status }
    const nothing = { offers: [], description: null, serviceName: null, tags: [] }
    return { ...base, ...nothing, status: null, problems: [outcome.problem] }
  }
}

const sendProbe = (egress: EndpointProbeDeps['egress'], url: URL, signal: AbortSignal) =>
  egress.sendSingleHop({
    url: url.href,
    method: 'GET',
    headers: { accept: 'application/json, */*;q=0.5' },
    maxBytes: LIMITS.probeAnswerBytes,
    timeoutMs: PROBE_TIMEOUT_MS,
    signal,
  })

function toFailedProbe(error: unknown): { readonly problem: string } {
  const reason = error instanceof RequestNotSentError ? error.reason : error
  if (!(reason instanceof ServiceError) || reason.code === 'blocked_url') throw reason
  return { problem: `The address does not answer: ${reason.message}` }
}

/**
 * Parses an address that may be probed: http on port 80 or https on port 443, without a fragment. Others would
 * let callers look for services on any port of any host. `allow` permits private addresses of tests.
 */
export function parseProbeableUrl(text: string, allow: EgressPrivateIpAllowlist): URL {
  const url = parseFetchableUrl(text, allow)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const isAllowed = isIP(host) !== 0 && allow(host, Number(url.port))
  // A parsed URL leaves out the standard port of its scheme.
  if (url.port !== '' && !isAllowed)
    throw new ServiceError('blocked_url', {
      host,
      reason: 'port',
      detail: 'Only port 80 of http and port 443 of https are probed.',
    })
  url.hash = ''
  // With the dot of the root it is the same host, and gets no minute of its own.
  url.hostname = url.hostname.replace(/\.$/, '')
  if (url.href.length > MAX_URL_CHARS)
    throw invalidInputError('/url', `must be at most ${MAX_URL_CHARS} characters`)
  return url
}
