import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'

/** The address of a caller, behind the proxies that the operator trusts (`TRUST_PROXY`). */

type TrustedProxies = false | number | readonly string[]
type AddressedRequest = Pick<FastifyRequest, 'headers' | 'socket'>

/**
 * Returns what finds the address of a request: the nearest one that is no trusted proxy. Where `X-Forwarded-For`
 * has something else than an address, it is that of the proxy which sent it: a caller who could choose a text
 * would be somebody new with each request. `Forwarded` is not read. An empty string for a socket without an address.
 */
export function createClientAddressReader(
  proxies: TrustedProxies,
): (request: AddressedRequest) => string {
  const isTrusted = toTrust(proxies)
  return ({ headers, socket }) => {
    let address = toAddress(socket.remoteAddress ?? '') ?? ''
    const hops = String(headers['x-forwarded-for'] ?? '').split(',')
    for (let hop = 0; hops.length > 0 && isTrusted(address, hop); hop += 1) {
      const next = toAddress(hops.pop() ?? '')
      if (next === null) return address
      address = next
    }
    return address
  }
}

/**
 * One entry of the header as a canonical address, without quotes, a port, brackets or a zone; IPv4 in its own form
 * where it is mapped into IPv6. Null for anything else: `unknown`, names, obfuscated identifiers.
 */
function toAddress(entry: string): string | null {
  const text = entry.trim().replace(/^"(.*)"$/, '$1')
  const [, bracketed] = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(text) ?? []
  const [, withPort] = /^([\d.]+):\d{1,5}$/.exec(text) ?? []
  const bare = (bracketed ?? withPort ?? text).replace(/%.*$/, '')
  return isIP(bare) === 0 ? null : ipaddr.process(bare).toString()
}

function toTrust(proxies: TrustedProxies): (address: string, hop: number) => boolean {
  if (typeof proxies === 'number') return (_address, hop) => hop < proxies
  if (proxies === false) return () => false
  const ranges = proxies.map(toRange)
  return (address) => isIP(address) !== 0 && ranges.some((range) => isWithin(address, range))
}

type Range = readonly [ipaddr.IPv4 | ipaddr.IPv6, number]

/** A range of addresses; a mapped one counts as the IPv4 that it maps. */
function toRange(text: string): Range {
  const [address = '', bits] = text.trim().split('/')
  const given = ipaddr.parse(address.replace(/^\[(.+)\]$/, '$1'))
  const own = ipaddr.process(given.toString())
  const widest = own.kind() === 'ipv4' ? 32 : 128
  const mapped = own.kind() === given.kind() ? 0 : 96
  return [own, bits === undefined ? widest : Math.max(0, Number(bits) - mapped)]
}

function isWithin(address: string, [base, bits]: Range): boolean {
  const parsed = ipaddr.parse(address)
  return parsed.kind() === base.kind() && parsed.match([base, bits] as never)
}
