import { lookup as systemLookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import type { ResolveAll } from './resolver.ts'
import { dnsResolver } from './resolver.ts'

/** Name servers first, because they fail fast; then the hosts file, which an operator may use. */
export function operatorLookup(resolve: ResolveAll = dnsResolver()): LookupFunction {
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
