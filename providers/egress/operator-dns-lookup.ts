import { lookup as systemLookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import type { DnsAddressResolver } from './dns-resolver.ts'
import { createDnsResolver } from './dns-resolver.ts'

/** Queries name servers first, which fail fast; then the hosts file, which an operator may use. */
export function createOperatorDnsLookup(
  resolve: DnsAddressResolver = createDnsResolver(),
): LookupFunction {
  return (name, wanted, found) => {
    resolve(name).then(
      (addresses) => {
        const [first] = addresses
        if (first === undefined) return systemLookup(name, wanted, found)
        if (wanted.all === true) return found(null, [...addresses])
        found(null, first.address, first.family)
      },
      (error: NodeJS.ErrnoException) => {
        const unknown = error.code === 'ENOTFOUND' || error.code === 'ENODATA'
        if (unknown) systemLookup(name, wanted, found)
        else found(error, '')
      },
    )
  }
}
