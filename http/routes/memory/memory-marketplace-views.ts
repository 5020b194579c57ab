import { asMicros, toUsdc } from '../../../core/money.ts'
import { memoryListingSellerShare } from '../../../domain/pricing.ts'
import type { SellerReputation } from '../../../memory/memory-marketplace/memory-listings-with-seller-reputation.ts'
import type { BoughtMemoryListing } from '../../../payments/commands/memory-listing-commands.ts'
import type { NewMemoryListing } from '../../../persistence/memory-marketplace/memory-marketplace-rows.ts'
import type {
  MemoryListingRecord,
  MemoryListingPurchaseRecord,
} from '../../../persistence/memory-marketplace/memory-marketplace-store.ts'
import { toIsoTime, toIsoTimeOrNull } from '../../schemas/shared-schemas.ts'

/** Presents listings and purchases. Nothing here names a buyer. */

type ListingWithReputation = MemoryListingRecord & { readonly reputation: SellerReputation }

/** A listing as anybody sees it. */
export function toMemoryListingView(listing: ListingWithReputation) {
  const status = listing.withdrawnAt === null ? ('open' as const) : ('withdrawn' as const)
  const { ratings, stars } = listing
  return {
    pack_id: listing.listingId,
    id: listing.listingId,
    name: listing.name,
    description: listing.description,
    price_usdc: toUsdc(listing.price),
    accepts_promo: listing.acceptsPromo,
    entry_count: listing.memoryIds.length,
    types: [...listing.types],
    tags: [...listing.tags],
    previews: [...listing.previews],
    seller_agent_id: listing.isSellerPublic ? listing.sellerId : null,
    seller_reputation: { ...listing.reputation },
    rating: {
      average: ratings === 0 ? null : Math.round((stars / ratings) * 100) / 100,
      count: ratings,
    },
    sold_count: listing.sold,
    status,
    state: status,
    created_at: toIsoTime(listing.createdAt),
    withdrawn_at: toIsoTimeOrNull(listing.withdrawnAt),
    buy_endpoint: buyPath(listing.listingId),
  }
}

/** A listing as its seller sees it. */
export const toOwnMemoryListingView = (listing: ListingWithReputation) => ({
  ...toMemoryListingView(listing),
  earned_usdc: toUsdc(asMicros(memoryListingSellerShare(listing.price) * BigInt(listing.sold))),
})

export const toMemoryPurchaseView = (purchase: MemoryListingPurchaseRecord) => ({
  purchase_id: purchase.purchaseId,
  id: purchase.purchaseId,
  pack_id: purchase.listingId,
  name: purchase.name,
  price_usdc: toUsdc(purchase.price),
  entry_count: purchase.entries,
  namespace: namespaceOf(purchase.listingId),
  your_stars: purchase.stars,
  bought_at: toIsoTime(purchase.at),
})

/** The reply to a new listing. */
export const toNewMemoryListingReply = (listing: NewMemoryListing) => ({
  status: 200,
  body: {
    pack_id: listing.listingId,
    id: listing.listingId,
    name: listing.name,
    price_usdc: toUsdc(listing.price),
    your_share_usdc: toUsdc(memoryListingSellerShare(listing.price)),
    accepts_promo: listing.acceptsPromo,
    entry_count: listing.memoryIds.length,
    types: [...listing.types],
    tags: [...listing.tags],
    previews: [...listing.previews],
    status: 'open',
    created_at: toIsoTime(listing.createdAt),
    buy_endpoint: buyPath(listing.listingId),
  },
})

/** The reply to a purchase. */
export const toMemoryPurchaseReply = ({ listing, ...bought }: BoughtMemoryListing) => ({
  status: 200,
  body: {
    purchase_id: bought.purchaseId,
    pack_id: listing.listingId,
    name: listing.name,
    status: 'bought',
    price_usdc: toUsdc(listing.price),
    promo_usdc: toUsdc(bought.promo),
    entries_added: bought.memoryIds.length,
    entry_ids: [...bought.memoryIds],
    namespace: namespaceOf(listing.listingId),
    balance_usdc: toUsdc(bought.balance),
    bought_at: toIsoTime(bought.at),
  },
})

export const toMemoryListingRatingReply =
  (id: string, stars: number) =>
  ({ at }: { at: number }) => ({
    status: 200,
    body: { pack_id: id.toLowerCase(), stars, rated_at: toIsoTime(at) },
  })

const buyPath = (listingId: string): string => `/api/marketplace/buy/${listingId}`
const namespaceOf = (listingId: string): string => `listing:${listingId}`
