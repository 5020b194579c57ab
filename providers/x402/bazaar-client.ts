import { withoutInvisibles } from '../../core/comparable-text.ts'
import { Type } from 'typebox'
import { LIMITS } from '../../core/limits.ts'
import type { BazaarResource, EndpointPaymentOffer } from '../../domain/payable-endpoint-offers.ts'
import type { UpstreamClient } from '../upstream/upstream-client.ts'

/** Reads `/discovery/resources` of other Bazaars. */

/** Returns what a Bazaar lists, at most a thousand resources; rejects with a ServiceError. */
export type ReadBazaar = (bazaar: string, signal: AbortSignal) => Promise<BazaarResource[]>

export interface BazaarClientDeps {
  readonly upstream: Pick<UpstreamClient, 'json'>
  /** Reads the offers of a 402 document. */
  readonly readOffers: (document: unknown) => readonly EndpointPaymentOffer[]
}

const PAGE_SIZE = 100
const PAGE_TIMEOUT_MS = 10_000
const MAX_OFFERS = 10
const MAX_TEXT_CHARS = 512
const MAX_NAME_CHARS = 80
const MAX_URL_CHARS = 2_048
const MAX_TAGS = 5
const MAX_TAG_CHARS = 32

const PageSchema = Type.Object({
  items: Type.Array(Type.Record(Type.String(), Type.Unknown())),
})

export function createBazaarClient({ upstream, readOffers }: BazaarClientDeps): ReadBazaar {
  return async (bazaar, signal) => {
    const found = new Map<string, BazaarResource>()
    for (let offset = 0; offset < LIMITS.bazaarResources; offset += PAGE_SIZE) {
      const { data } = await upstream.json({
        provider: `bazaar ${new URL(bazaar).host}`,
        url: `${bazaar}/discovery/resources?type=http&limit=${PAGE_SIZE}&offset=${offset}`,
        schema: PageSchema,
        timeoutMs: PAGE_TIMEOUT_MS,
        signal,
      })
      for (const item of data.items.slice(0, PAGE_SIZE)) {
        const resource = toResource(item, readOffers)
        if (resource !== null) found.set(resource.url, resource)
      }
      if (data.items.length < PAGE_SIZE) break
    }
    return [...found.values()]
  }
}

/** Returns null for a resource without a web address or an offer that can be read. */
function toResource(
  item: Record<string, unknown>,
  readOffers: BazaarClientDeps['readOffers'],
): BazaarResource | null {
  const { resource, x402Version, accepts } = item
  if (typeof resource !== 'string' || resource.length > MAX_URL_CHARS || !URL.canParse(resource))
    return null
  const url = new URL(resource)
  const isWeb = url.protocol === 'https:' || url.protocol === 'http:'
  if (!isWeb || url.username !== '' || url.password !== '') return null
  // Its encoded form may be nine times as long.
  if (url.href.length > MAX_URL_CHARS) return null
  const offers = readOffers({ x402Version, accepts, resource: { url: resource } })
  if (offers.length === 0) return null
  const tags: unknown[] = Array.isArray(item['tags']) ? item['tags'] : []
  return {
    url: url.href,
    name: toText(item['serviceName'], MAX_NAME_CHARS) ?? url.hostname,
    description: toText(item['description'], MAX_TEXT_CHARS) ?? describedIn(accepts),
    tags: tags.flatMap((tag) => toText(tag, MAX_TAG_CHARS) ?? []).slice(0, MAX_TAGS),
    offers: offers.slice(0, MAX_OFFERS),
  }
}

/** Version 1 describes a resource in each of its offers. */
function describedIn(accepts: unknown): string | null {
  const first: unknown = Array.isArray(accepts) ? accepts[0] : null
  const description =
    typeof first === 'object' && first !== null && 'description' in first ? first.description : null
  return toText(description, MAX_TEXT_CHARS)
}

function toText(value: unknown, maxChars: number): string | null {
  if (typeof value !== 'string') return null
  // Cut before it is cleaned, because the cut may halve a surrogate pair.
  const text = withoutInvisibles(value.slice(0, maxChars))
    .replace(/[\p{Cc}\p{Surrogate}]+/gu, ' ')
    .trim()
  return text === '' ? null : text
}
