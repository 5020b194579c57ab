import type { CatalogueEntry } from '../../../tools/tool-ports.ts'

/** What every discovery document is made of: the service, its addresses and its catalogue. */

export const SERVICE_NAME = 'Gas Station'
export const SERVICE_SUMMARY =
  'Tools for software agents, paid by the call: search, prices, pages, memory, chains, code, models and messages. One endpoint, POST /api/refuel. Pay with credits, x402, EIP-3009 or MPP.'

/** The summary for documents that take at most 100 characters. */
export const SERVICE_TAGLINE =
  'Tools for software agents, paid by the call: search, prices, pages, memory, chains, code, models.'

export interface DiscoveryDocumentInput {
  /** The public base URL without a trailing slash. */
  readonly publicUrl: string
  readonly version: string
  readonly tools: readonly CatalogueEntry[]
}

/** A category of tools, as one skill of the service. */
export interface CategorizedTools {
  readonly category: string
  readonly tools: readonly CatalogueEntry[]
}

/** The tools by category, in the order of the catalogue. */
export function toToolsByCategory(tools: readonly CatalogueEntry[]): CategorizedTools[] {
  const byCategory = new Map<string, CatalogueEntry[]>()
  for (const tool of tools)
    byCategory.set(tool.category, [...(byCategory.get(tool.category) ?? []), tool])
  return [...byCategory].map(([category, members]) => ({ category, tools: members }))
}

/** `api.example.com` as `com.example.api`; an address or a single label keeps its order. */
export function toReverseDnsName(hostname: string): string {
  if (hostname.includes(':')) return hostname.replace(/[[\]]/g, '').replaceAll(':', '-')
  return /^[\d.]+$/.test(hostname) ? hostname : hostname.split('.').toReversed().join('.')
}

/** The price in words. */
export function describeCatalogueEntryPrice(tool: CatalogueEntry): string {
  const { access, price_usdc: price, free_tier: free } = tool
  if (access === 'paid') return price > 0 ? `${price} USDC a call` : 'priced by the input'
  const freely = access === 'free' ? 'free' : 'free with a key'
  if (free === null) return freely
  const { calls_per_day: calls, overage_price_usdc: overage } = free
  const limit = calls === null ? freely : `${freely}, ${calls} calls a day`
  return overage === null ? limit : `${limit}, then ${overage} USDC`
}
