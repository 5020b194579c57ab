import type { Micros } from '../../core/money.ts'

/** Rows of the marketplace, as commands stage them with `ctx.row`. */

/** Memories that an agent offers for sale, and the terms. */
export interface ListedMemories {
  readonly name: string
  readonly description: string
  readonly price: Micros
  /** Whether promotional credits may pay the price. */
  readonly acceptsPromo: boolean
  readonly memoryIds: readonly string[]
  readonly types: readonly string[]
  readonly tags: readonly string[]
  /** The first words of three memories. */
  readonly previews: readonly string[]
}

export interface NewMemoryListing extends ListedMemories {
  readonly listingId: string
  readonly sellerId: string
  readonly createdAt: Date
}

/** The row of a new listing. A trigger copies the memories. */
export const toMemoryListingRow = (listing: NewMemoryListing) => ({
  listing_id: listing.listingId,
  seller_id: listing.sellerId,
  name: listing.name,
  description: listing.description,
  price_micros: String(listing.price),
  accepts_promo: listing.acceptsPromo,
  memory_ids: listing.memoryIds,
  types: listing.types,
  tags: listing.tags,
  previews: listing.previews,
  created_at: listing.createdAt.toISOString(),
  withdrawn_at: null,
  search: null,
})

export const toMemoryListingWithdrawalRow = (listingId: string, at: number) => ({
  listing_id: listingId,
  at: new Date(at).toISOString(),
})

export interface NewMemoryListingPurchase {
  readonly purchaseId: string
  readonly listingId: string
  readonly buyerId: string
  readonly price: Micros
  /** Ids of the copies. */
  readonly memoryIds: readonly string[]
  readonly at: number
}

/** The row of a purchase. A trigger copies the memories into the vault of the buyer. */
export const toMemoryListingPurchaseRow = (purchase: NewMemoryListingPurchase) => ({
  purchase_id: purchase.purchaseId,
  listing_id: purchase.listingId,
  buyer_id: purchase.buyerId,
  price_micros: String(purchase.price),
  memory_ids: purchase.memoryIds,
  at: new Date(purchase.at).toISOString(),
})

export interface NewMemoryListingRating {
  readonly listingId: string
  readonly buyerId: string
  readonly stars: number
  readonly at: number
}

export const toMemoryListingRatingRow = ({
  listingId,
  buyerId,
  stars,
  at,
}: NewMemoryListingRating) => ({
  listing_id: listingId,
  buyer_id: buyerId,
  stars,
  at: new Date(at).toISOString(),
})
