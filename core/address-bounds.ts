import { LIMITS } from './limits.ts'

/** Whom limits by address count: a caller can choose among all addresses of its IPv6 network. */

/** The pseudonyms of an address or IPv6 /64, and of the /48 around it; null for IPv4. */
export interface CallerAddress {
  readonly visitorId: string
  readonly siteId: string | null
}

/** A caller that a limit counts, with the multiple of the limit that it has. */
export interface CountedCaller {
  readonly id: string
  readonly factor: number
  readonly per: 'agent' | 'address' | 'network'
}

/** Returns the address, and the /48 of an IPv6 address with more room: each limit by address counts both. */
export function addressBounds({
  visitorId,
  siteId,
}: CallerAddress): readonly [CountedCaller, CountedCaller?] {
  const address = { id: visitorId, factor: 1, per: 'address' } as const
  if (siteId === null) return [address]
  return [address, { id: siteId, factor: LIMITS.ipv6SiteFactor, per: 'network' }]
}

/** Returns the agent of a caller with a key, else its `addressBounds`. */
export const callerBounds = ({
  agentId,
  ...address
}: CallerAddress & { readonly agentId: string | null }): readonly CountedCaller[] =>
  agentId === null
    ? addressBounds(address).filter((one) => one !== undefined)
    : [{ id: agentId, factor: 1, per: 'agent' }]
