import { Agent } from 'node:http'
import { isIP, type LookupFunction } from 'node:net'
import type { LookupAddress } from 'node:dns'
import { ServiceError } from '../../core/errors.ts'
import { isMetadataName, isPublic, type Allow } from './address.ts'
import { isWebPort } from './ports.ts'
import type { ResolveAll } from './resolver.ts'

export interface ProxySettings {
  readonly allow: Allow
  readonly resolve: ResolveAll
  /** Of all its connections together, both ways, before every one of them is cut. */
  readonly maxBytes: number
}

/** A proxy on the loopback that leads to public addresses only; what it refuses gets no answer. */
export interface GuardedProxy {
  readonly url: string
  /** Why nothing came from this host, where that was the proxy's doing. */
  failureOf(host: string): ServiceError | null
  close(): Promise<void>
}

/** What Chromium asks by itself, whatever page it shows. */
const ITS_OWN =
  /^(update|clients\d*|safebrowsing|optimizationguide-pa|content-autofill|android\.clients)\.(google|googleapis)\.com$|^(redirector\.)?gvt1\.com$/
const LOOK_MS = 250
const MOST_REMEMBERED = 200

/** Opened for one visitor, and closed with it: its refusals and its bytes are that visitor's. */
export async function guardedProxy(settings: ProxySettings): Promise<GuardedProxy> {
  const { Server } = await import('proxy-chain')
  const { allow, maxBytes } = settings
  const failures = new Map<string, ServiceError>()
  // Its own: a socket that others opened in this process was not checked here.
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
        return { upstreamProxyUrl: null, dnsLookup: pinned(addresses) as never, httpAgent }
      } catch (error) {
        if (failures.size < MOST_REMEMBERED) failures.set(host, failureOf(error, host))
        // An answer of the proxy would pass for one of the host.
        request.socket.destroy()
        throw error
      }
    },
  })
  server.on('connectionClosed', ({ stats }: { stats?: Traffic }) => (gone += sizeOf(stats)))
  const look = setInterval(() => {
    const open = server.getConnectionIds().map((id) => sizeOf(server.getConnectionStats(id)))
    if (open.reduce((sum, size) => sum + size, gone) > maxBytes) server.closeConnections()
  }, LOOK_MS)
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
    { resolve }: ProxySettings,
  ): Promise<readonly LookupAddress[]> {
    const refuse = (reason: string) => new ServiceError('blocked_url', { host, reason })
    const may = (address: string) => isPublic(address) || allow(address, port)
    const literal = isIP(host) !== 0
    if (literal && allow(host, port)) return []
    if (!isWebPort(port)) throw refuse('port')
    if (literal ? !may(host) : isMetadataName(host)) throw refuse('address')
    if (literal) return []
    if (ITS_OWN.test(host)) throw refuse('name')
    const addresses = await resolve(host)
    if (!addresses.every(({ address }) => may(address))) throw refuse('address')
    if (addresses.length === 0)
      throw new ServiceError('upstream_error', { host, reason: 'ENOTFOUND' })
    return addresses
  }
}

interface Traffic {
  readonly srcTxBytes: number
  readonly srcRxBytes: number
}

const sizeOf = (stats: Traffic | undefined): number =>
  stats === undefined ? 0 : stats.srcTxBytes + stats.srcRxBytes

/** Whoever connects gets the addresses that were checked, and no second look. */
function pinned(addresses: readonly LookupAddress[]): LookupFunction {
  return (_name, wanted, found) => {
    const [first] = addresses
    if (first === undefined) return found(new Error('no address was checked'), '')
    if (wanted.all === true) return found(null, [...addresses])
    found(null, first.address, first.family)
  }
}

function failureOf(error: unknown, host: string): ServiceError {
  if (error instanceof ServiceError) return error
  const reason = (error as NodeJS.ErrnoException).code
  return new ServiceError('upstream_error', { host, reason }, error)
}
