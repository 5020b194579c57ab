import { SECOND, type Clock } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { rateLimitError } from '../../core/rate-limit-error.ts'
import type { EndpointProbeResult } from '../../domain/payable-endpoint-offers.ts'
import type { HostProber, HostProbeStore } from '../../persistence/x402/host-probe-store.ts'
import type { ProbeEndpoint } from '../../providers/x402/probe-endpoint-payment-demand.ts'

/**
 * Probes addresses: one a minute for each host, for all callers and nodes. Hourly probes, and the listings of each
 * agent, have a minute of their own: callers who probe a host all the time keep nobody from being listed.
 */

export interface ProbedEndpoint {
  readonly probe: EndpointProbeResult
  /** Another caller made the probe, less than a minute ago. */
  readonly isCached: boolean
}

export interface EndpointProber {
  /** Parses an address that may be probed; throws `invalid_input` or `blocked_url`. */
  parse(url: string): URL
  /** Throws `rate_limited` while another address of the host is within its minute. */
  probe(url: URL): Promise<ProbedEndpoint>
  /** The same for an address that an agent lists. */
  probeForListing(url: URL, agentId: string): Promise<ProbedEndpoint>
  /** The same for a listed address that is due. */
  probeHourly(url: URL): Promise<ProbedEndpoint>
}

export interface EndpointProberDeps {
  readonly store: HostProbeStore
  readonly send: ProbeEndpoint
  readonly parse: (url: string) => URL
  readonly clock: Pick<Clock, 'now'>
  /** Aborts running probes. */
  readonly stopped: AbortSignal
}

export function createEndpointProber(deps: EndpointProberDeps): EndpointProber {
  const { store, send, parse, clock, stopped } = deps
  const running = new Map<string, Promise<EndpointProbeResult>>()

  async function probeNow(url: URL, by: HostProber, at: Date): Promise<EndpointProbeResult> {
    const probe = await send(url, stopped)
    await store.store({ host: url.hostname, by }, at, probe)
    return probe
  }

  async function probe(url: URL, by: HostProber): Promise<ProbedEndpoint> {
    const mine = running.get(url.href)
    if (mine !== undefined) return { probe: await mine, isCached: true }
    const [host, at] = [{ host: url.hostname, by }, new Date(clock.now())]
    const claim = await store.claim(host, url.href, at, LIMITS.probeSeconds)
    if (claim.kind === 'known') return { probe: claim.answer, isCached: true }
    if (claim.kind === 'busy') {
      // The first caller may have begun while this one asked the database.
      const begun = running.get(url.href)
      if (begun !== undefined) return { probe: await begun, isCached: true }
      throw hostBusyError(claim.at.getTime(), clock.now())
    }
    const probing = probeNow(url, by, at).finally(() => running.delete(url.href))
    running.set(url.href, probing)
    return { probe: await probing, isCached: false }
  }

  return {
    parse,
    probe: (url) => probe(url, 'callers'),
    probeForListing: (url, agentId) => probe(url, { agentId }),
    probeHourly: (url) => probe(url, 'hourly'),
  }
}

function hostBusyError(probedAt: number, now: number) {
  const left = Math.ceil((probedAt + LIMITS.probeSeconds * SECOND - now) / SECOND)
  const rule = { name: 'probe_host', subject: 'address', max: 1, per: 'host' } as const
  return rateLimitError({ ...rule, windowSeconds: LIMITS.probeSeconds }, Math.max(1, left))
}
