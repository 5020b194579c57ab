import type { Clock } from '../../core/clock.ts'
import type { HiveEvidenceStore } from '../../persistence/hive/hive-entries-about-topic-reader.ts'
import type { MemoryListingRecord } from '../../persistence/memory-marketplace/memory-marketplace-store.ts'
import { computeReputation } from '../agents/reputation.ts'

/** Listings with the reputations of their sellers. */

export interface SellerReputation {
  /** 0 to 100. */
  readonly score: number
  readonly tier: string
}

/** Adds to each listing what the public record says about its seller. */
export const createMemorySellerReputationLookup =
  (store: Pick<HiveEvidenceStore, 'standingsOf'>, clock: Clock) =>
  async <L extends Pick<MemoryListingRecord, 'sellerId'>>(
    listings: readonly L[],
  ): Promise<(L & { readonly reputation: SellerReputation })[]> => {
    const sellers = [...new Set(listings.map(({ sellerId }) => sellerId))]
    const standings = await store.standingsOf(sellers)
    return listings.map((listing) => {
      const standing = standings.get(listing.sellerId)
      const { score, tier } =
        standing === undefined
          ? { score: 0, tier: 'newcomer' }
          : computeReputation(standing, clock.now())
      return { ...listing, reputation: { score, tier } }
    })
  }
