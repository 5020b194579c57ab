import {
  readPaymentDemand,
  readOffersOfQuoted402Document,
} from '../../../chain/read-payment-demand.ts'
import type { Clock } from '../../../core/clock.ts'
import { createBazaarReadJob } from '../../../jobs/x402/bazaar-read-job.ts'
import { createEndpointProber } from '../../../jobs/x402/payable-endpoint-prober.ts'
import { createListedApiProbeJob } from '../../../jobs/x402/listed-api-probe-job.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createBazaarStore } from '../../../persistence/x402/foreign-bazaar-listing-store.ts'
import { createHostProbeStore } from '../../../persistence/x402/host-probe-store.ts'
import { createPayableApiDirectory } from '../../../persistence/x402/payable-api-directory.ts'
import { createPayableApiStore } from '../../../persistence/x402/payable-api-store.ts'
import type { DnsAddressResolver } from '../../../providers/egress/dns-resolver.ts'
import { createEgressClient } from '../../../providers/egress/guarded-egress-client.ts'
import { createOriginOwnershipChallenge } from '../../../providers/egress/origin-ownership-challenge.ts'
import { parseIpAddressAllowlist } from '../../../providers/egress/public-ip-address.ts'
import { createUpstreamClient } from '../../../providers/upstream/upstream-client.ts'
import { createBazaarClient } from '../../../providers/x402/bazaar-client.ts'
import {
  createEndpointProbe,
  parseProbeableUrl,
} from '../../../providers/x402/probe-endpoint-payment-demand.ts'
import type { Config } from '../../config.ts'
import { VERSION } from '../../version.ts'

/** Composes the registry of pay-per-call APIs: probes, proofs of origin, and other Bazaars. */

export interface ComposeX402RegistryDeps {
  readonly config: Pick<Config, 'ssrfAllow' | 'x402Bazaars'>
  readonly clock: Clock
  readonly sql: Sql
  readonly publicUrl: string
  readonly own: { readonly origins: Buffer }
  readonly resolve?: DnsAddressResolver | undefined
  readonly log: (message: string, error: unknown) => void
}

/** Creates the registry and its background work. */
export function composeX402Registry(parts: ComposeX402RegistryDeps) {
  const { config, clock, sql, publicUrl, own, resolve, log } = parts
  const stopping = new AbortController()
  const { signal: stopped } = stopping
  const allow = parseIpAddressAllowlist(config.ssrfAllow)
  // Owners of servers see who probes them, and why.
  const userAgent = `gas-station-probe/${VERSION} (+${publicUrl}/api/x402/apis)`
  const egress = createEgressClient({
    allow,
    userAgent,
    ...(resolve === undefined ? {} : { resolve }),
  })
  const upstream = createUpstreamClient({ clock, userAgent })
  const apis = createPayableApiStore(sql)
  const prober = createEndpointProber({
    store: createHostProbeStore(sql),
    send: createEndpointProbe({ egress, clock, readDemand: readPaymentDemand }),
    parse: (url) => parseProbeableUrl(url, allow),
    clock,
    stopped,
  })
  const jobs = [
    createListedApiProbeJob({ store: apis, prober, clock, log }),
    createBazaarReadJob({
      bazaars: config.x402Bazaars,
      store: createBazaarStore(sql),
      read: createBazaarClient({ upstream, readOffers: readOffersOfQuoted402Document }),
      clock,
      log,
      stopped,
    }),
  ]
  return {
    served: {
      x402: {
        apis,
        directory: createPayableApiDirectory(sql),
        prober,
        challenge: createOriginOwnershipChallenge({ egress, key: own.origins }),
      },
    },
    start: () => jobs.forEach((job) => job.start()),
    async stop(): Promise<void> {
      stopping.abort()
      await Promise.all(jobs.map((job) => job.stop()))
      await Promise.all([egress.close(), upstream.close()])
    },
  }
}
