import ipaddr from 'ipaddr.js'

/** Decides which IP addresses callers may reach. */

const GLOBAL_V6 = ipaddr.parseCIDR('2000::/3')

/** Returns whether a non-public address may be reached. */
export type EgressPrivateIpAllowlist = (address: string, port: number) => boolean

/** Metadata services of clouds, which hand out credentials; the first is in a public range. */
const METADATA_ADDRESSES = [
  '168.63.129.16',
  '192.0.0.192',
  '100.100.100.200',
  '169.254.169.254',
  'fd00:ec2::254',
]
const NORMALIZED_METADATA_ADDRESSES = new Set(
  METADATA_ADDRESSES.map((one) => ipaddr.process(one).toNormalizedString()),
)
const METADATA_NAMES =
  /^(metadata|instance-data|metadata\.goog|(metadata|instance-data)(\.[a-z0-9-]+)*\.internal|metadata\.(tencentyun|platformequinix)\.com)\.?$/i

/** Returns whether a name belongs to a cloud's metadata service, for any resolved address. */
export const isMetadataHostname = (host: string): boolean => METADATA_NAMES.test(host)

/** Returns true only for globally routable unicast addresses outside metadata services. */
export function isPublicIpAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false
  const ip = ipaddr.process(address) // unwraps ::ffff:a.b.c.d
  if (NORMALIZED_METADATA_ADDRESSES.has(ip.toNormalizedString())) return false
  return ip.range() === 'unicast' && (ip.kind() === 'ipv4' || ip.match(GLOBAL_V6))
}

/** The provider mode for `_meta`: an address that only `SSRF_ALLOW` permits is a fixture. */
export function liveOrFixtureModeOfUrl(url: string): 'live' | 'fixture' {
  const host = URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, '') : ''
  return !ipaddr.isValid(host) || isPublicIpAddress(host) ? 'live' : 'fixture'
}

/** Parses `127.0.0.1:21500-21599,[::1]:8080`: addresses and ports allowed in development. */
export function parseIpAddressAllowlist(list: string): EgressPrivateIpAllowlist {
  const entries = list
    .split(',')
    .flatMap((text) => (text.trim() === '' ? [] : [parseAllowlistEntry(text)]))
  return (address, port) =>
    entries.some((entry) => {
      const same = ipaddr.isValid(address) && normalizeAddress(address) === entry.address
      return same && port >= entry.first && port <= entry.last
    })
}

const ALLOWLIST_ENTRY = /^\[?([0-9A-Fa-f:.]+?)\]?:(\d{1,5})(?:-(\d{1,5}))?$/

function parseAllowlistEntry(text: string) {
  const [, address = '', first = '', last = first] = ALLOWLIST_ENTRY.exec(text.trim()) ?? []
  if (!ipaddr.isValid(address)) throw new Error(`not an address with ports: "${text.trim()}"`)
  const [from, to] = [Number(first), Number(last)]
  if (from < 1 || to > 65_535 || from > to) throw new Error(`no ports: "${text.trim()}"`)
  return { address: normalizeAddress(address), first: from, last: to }
}

const normalizeAddress = (address: string): string => ipaddr.process(address).toNormalizedString()
