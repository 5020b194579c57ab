import type { LookupFunction } from 'node:net'
import { isIP } from 'node:net'
import { Agent, buildConnector } from 'undici'
import { ServiceError } from '../../core/errors.ts'
import type { EgressPrivateIpAllowlist } from './public-ip-address.ts'
import { isPublicIpAddress } from './public-ip-address.ts'
import type { DnsAddressResolver } from './dns-resolver.ts'

/** Timeouts of the parts of a connection, in milliseconds. */
export interface OutboundHttpTimeouts {
  readonly connectMs: number
  readonly headersMs: number
  /** Between two chunks of the body. */
  readonly bodyMs: number
}

/** Creates an undici Agent that checks the address it connects to, which prevents DNS rebinding. */
export function createGuardedHttpAgent(
  allow: EgressPrivateIpAllowlist,
  resolve: DnsAddressResolver,
  timeouts: OutboundHttpTimeouts,
  connections = 16,
): Agent {
  const { connectMs: timeout, headersMs: headersTimeout, bodyMs: bodyTimeout } = timeouts
  return new Agent({ connections, headersTimeout, bodyTimeout, connect })

  function connect(options: buildConnector.Options, done: buildConnector.Callback): void {
    const host = options.hostname.replace(/^\[|\]$/g, '')
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80)
    const permitted = (address = '') => isPublicIpAddress(address) || allow(address, port)
    const refusal = new ServiceError('blocked_url', { host })
    // Literal addresses skip the lookup.
    if (isIP(host) !== 0 && !permitted(host)) return done(refusal, null)
    const lookup = checkedLookup(resolve, permitted, refusal)
    const open = buildConnector({ lookup, timeout, autoSelectFamily: true })
    open(options, (error, socket) => {
      if (error !== null) return done(error, null)
      if (permitted(socket.remoteAddress)) return done(null, socket)
      socket.destroy()
      done(refusal, null)
    })
  }
}

/** Resolves a name only when all its addresses are permitted. */
function checkedLookup(
  resolve: DnsAddressResolver,
  permitted: (address: string) => boolean,
  refusal: ServiceError,
): LookupFunction {
  return (name, wanted, found) => {
    resolve(name).then(
      (addresses) => {
        const [first] = addresses
        if (first === undefined) return found(addressNotFoundError(name), '')
        if (!addresses.every(({ address }) => permitted(address))) return found(refusal, '')
        if (wanted.all === true) return found(null, [...addresses])
        found(null, first.address, first.family)
      },
      (error: NodeJS.ErrnoException) => found(error, ''),
    )
  }
}

const addressNotFoundError = (name: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`${name} has no address`), { code: 'ENOTFOUND' })
