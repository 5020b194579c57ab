import { Resolver } from 'node:dns/promises'
import type { LookupAddress } from 'node:dns'

/** Resolves a name to all its addresses. Rejects with a DNS error code when there is none. */
export type DnsAddressResolver = (name: string) => Promise<readonly LookupAddress[]>

/**
 * Creates a resolver that queries name servers directly, for at most 1.4 s; `dns.lookup` may block one of
 * four threads for many seconds. It reads no hosts file, so names of this machine resolve to its loopback.
 */
export function createDnsResolver(): DnsAddressResolver {
  const resolver = new Resolver({ timeout: 700, tries: 2 })
  return async (name) => {
    const host = name.replace(/\.$/, '').toLowerCase()
    if (host === 'localhost' || host.endsWith('.localhost')) return LOOPBACK_ADDRESSES
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    const found = [...toLookupAddresses(four, 4), ...toLookupAddresses(six, 6)]
    if (found.length === 0 && four.status === 'rejected') throw four.reason
    return found
  }
}

const LOOPBACK_ADDRESSES: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
]

const toLookupAddresses = (
  answer: PromiseSettledResult<string[]>,
  family: number,
): LookupAddress[] =>
  answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family })) : []
