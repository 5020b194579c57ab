import { Agent } from 'node:http'
import { isIP, type LookupFunction } from 'node:net'
import type { LookupAddress } from 'node:dns'
import { ServiceError } from '../../core/errors.ts'
import {
  isMetadataHostname,
  isPublicIpAddress,
  type EgressPrivateIpAllowlist,
} from './public-ip-address.ts'
import { isFetchableTcpPort } from './fetchable-tcp-ports.ts'
import type { DnsAddressResolver } from './dns-resolver.ts'

/** The proxy between Chromium and the internet, limited to public addresses. */

export interface GuardedProxySettings {
  readonly allow: EgressPrivateIpAllowlist
  readonly resolve: DnsAddressResolver
  /** Bytes of all its connections in both directions before they are closed. */
  readonly maxBytes: number
}

/** A loopback proxy to public addresses; refused requests get no response. */
export interface GuardedProxy {
  readonly url: string
  /** Returns why the proxy refused or lost a host; null otherwise. */
  failureOf(host: string): ServiceError | null
  close(): Promise<void>
}

/** Hosts that Chromium contacts by itself. */
const CHROMIUM_SERVICE_HOSTS =
  /^(update|clients\d*|safebrowsing|optimizationguide-pa|content-autofill|android\.clients)\.(google|googleapis)\.com$|^(redirector\.)?gvt1\.com$/
const PROXY_TRAFFIC_POLL_MS = 250
const MAX_RECORDED_FAILURES = 200

/** Starts a proxy for one session, so that its refusals and bytes are that session's. */
export async function startGuardedProxy(settings: GuardedProxySettings): Promise<GuardedProxy> {
  const { Server } = await import('proxy-chain')
  const { allow, maxBytes } = settings
  const failures = new Map<string, ServiceError>()
  // A separate agent: pooled sockets of this process were not checked here.
  const httpAgent = new Agent({ keepAlive: false })
  let gone = 0

  const server = new Server({
    port: 0,
    host: '127.0.0.1',
    async prepareRequestFunction({ hostname, port, request }) {
      const host = hostname.replace(/^\[|\]$/g, '').toLowerCase()
      try {
        if (gone > maxBytes) throw new ServiceError('response_too_large', { limit_bytes: maxBytes })
        const addresses = await permitted(host, port, settings)
        return { upstreamProxyUrl: null, dnsLookup: pinnedLookup(addresses) as never, httpAgent }
      } catch (error) {
        if (failures.size < MAX_RECORDED_FAILURES) failures.set(host, toProxyFailure(error, host))
        // A response of the proxy would look like one of the host.
        request.socket.destroy()
        throw error
      }
    },
  })
  server.on(
    'connectionClosed',
    ({ stats }: { stats?: ProxyConnectionStats }) => (gone += transferredBytes(stats)),
  )
  const look = setInterval(() => {
    const open = server
      .getConnectionIds()
      .map((id) => transferredBytes(server.getConnectionStats(id)))
    if (open.reduce((sum, size) => sum + size, gone) > maxBytes) server.closeConnections()
  }, PROXY_TRAFFIC_POLL_MS)
  look.unref()
  await server.listen()
  return {
    url: `http://127.0.0.1:${server.port}`,
    failureOf: (host) => failures.get(host.replace(/^\[|\]$/g, '').toLowerCase()) ?? null,
    async close() {
      clearInterval(look)
      httpAgent.destroy()
      await server.close(true)
    },
  }

  async function permitted(
    host: string,
    port: number,
    { resolve }: GuardedProxySettings,
  ): Promise<readonly LookupAddress[]> {
    const refuse = (reason: string) => new ServiceError('blocked_url', { host, reason })
    const may = (address: string) => isPublicIpAddress(address) || allow(address, port)
    const literal = isIP(host) !== 0
    if (literal && allow(host, port)) return []
    if (!isFetchableTcpPort(port)) throw refuse('port')
    if (literal ? !may(host) : isMetadataHostname(host)) throw refuse('address')
    if (literal) return []
    if (CHROMIUM_SERVICE_HOSTS.test(host)) throw refuse('name')
    const addresses = await resolve(host)
    if (!addresses.every(({ address }) => may(address))) throw refuse('address')
    if (addresses.length === 0)
      throw new ServiceError('upstream_error', { host, reason: 'ENOTFOUND' })
    return addresses
  }
}

interface ProxyConnectionStats {
  readonly srcTxBytes: number
  readonly srcRxBytes: number
}

const transferredBytes = (stats: ProxyConnectionStats | undefined): number =>
  stats === undefined ? 0 : stats.srcTxBytes + stats.srcRxBytes

/** Connects to the checked addresses, without a second lookup. */
function pinnedLookup(addresses: readonly LookupAddress[]): LookupFunction {
  return (_name, wanted, found) => {
    const [first] = addresses
    if (first === undefined) return found(new Error('no address was checked'), '')
    if (wanted.all === true) return found(null, [...addresses])
    found(null, first.address, first.family)
  }
}

function toProxyFailure(error: unknown, host: string): ServiceError {
  if (error instanceof ServiceError) return error
  const reason = (error as NodeJS.ErrnoException).code
  return new ServiceError('upstream_error', { host, reason }, error)
}
