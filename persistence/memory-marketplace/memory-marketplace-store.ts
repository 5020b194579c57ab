import { asMicros, type Micros } from '../../core/money.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import { isPublicAgentSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { liveMemoriesSql } from '../vault/vault-memory-row.ts'
import type { NewMemoryListing } from './memory-marketplace-rows.ts'

/** Reads the marketplace; commits write it. */

export interface MemoryListingRecord extends NewMemoryListing {
  /** Whether the owner of the seller lets it be named. */
  readonly isSellerPublic: boolean
  readonly withdrawnAt: Date | null
  readonly sold: number
  readonly ratings: number
  /** The sum of the stars of all ratings. */
  readonly stars: number
}

export interface MemoryListingFilter {
  readonly text: string | null
  readonly type: string | null
  readonly tag: string | null
  readonly maxPrice: Micros | null
}

/** A memory that its owner wants to sell. */
export interface MemoryForSale {
  readonly id: string
  readonly content: string
  readonly type: string
  readonly tags: readonly string[]
  /** Why it may not be sold; null if it may. */
  readonly foreign: 'bought' | 'shared' | null
}

export interface MemoryListingPurchaseRecord {
  readonly purchaseId: string
  readonly listingId: string
  readonly name: string
  readonly price: Micros
  readonly entries: number
  /** The buyer's own rating. */
  readonly stars: number | null
  readonly at: Date
}

/** Greater than all ids: the first page starts before it. */
const MAX_LISTING_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export function createMemoryMarketplaceStore(sql: Sql) {
  const columns = sql`l.listing_id, l.seller_id, l.name, l.description, l.price_micros, l.accepts_promo,
    l.memory_ids, l.types, l.tags, l.previews, l.created_at, l.withdrawn_at,
    ${isPublicAgentSql(sql)} as is_seller_public,
    (select count(*)::int from marketplace_purchases p where p.listing_id = l.listing_id) as sold,
    r.ratings, r.stars
    from marketplace_listings l join agents a on a.agent_id = l.seller_id
    cross join lateral (select count(*)::int as ratings, coalesce(sum(stars), 0)::int as stars
      from marketplace_ratings where listing_id = l.listing_id) r`

  return {
    async find(listingId: string): Promise<MemoryListingRecord | null> {
      const [row] = await sql<
        ListingRow[]
      >`select ${columns} where l.listing_id = ${listingId}::uuid`
      return row === undefined ? null : fromRow(row)
    },

    /** Open listings, newest first; `before` is the id of the last one seen. */
    async open(
      { text, type, tag, maxPrice }: MemoryListingFilter,
      limit: number,
      before: string | null,
    ): Promise<MemoryListingRecord[]> {
      const rows = await sql<ListingRow[]>`
        select ${columns}
         where l.withdrawn_at is null and l.listing_id < ${before ?? MAX_LISTING_ID}::uuid
           and (${text}::text is null or l.search @@ websearch_to_tsquery('english', search_question(${text})))
           and (${type}::text is null or ${type} = any(l.types))
           and (${tag}::text is null or ${tag} = any(l.tags))
           and (${maxPrice}::bigint is null or l.price_micros <= ${maxPrice})
         order by l.listing_id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** All listings of a seller, newest first. */
    async ofSeller(sellerId: string, limit: number, before: string | null) {
      const rows = await sql<ListingRow[]>`
        select ${columns}
         where l.seller_id = ${sellerId}::uuid and l.listing_id < ${before ?? MAX_LISTING_ID}::uuid
         order by l.listing_id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** The purchases of an agent, newest first. */
    async boughtBy(
      buyerId: string,
      limit: number,
      before: string | null,
    ): Promise<MemoryListingPurchaseRecord[]> {
      const rows = await sql<PurchaseRow[]>`
        select p.purchase_id, p.listing_id, l.name, p.price_micros, cardinality(p.memory_ids) as entries, p.at,
               (select r.stars from marketplace_ratings r
                 where r.listing_id = p.listing_id and r.buyer_id = p.buyer_id) as stars
          from marketplace_purchases p join marketplace_listings l using (listing_id)
         where p.buyer_id = ${buyerId}::uuid and p.purchase_id < ${before ?? MAX_LISTING_ID}::uuid
         order by p.purchase_id desc limit ${limit}`
      return rows.map((row) => ({
        purchaseId: row.purchase_id,
        listingId: row.listing_id,
        name: row.name,
        price: asMicros(row.price_micros),
        entries: row.entries,
        stars: row.stars,
        at: row.at,
      }))
    },

    /**
     * Live memories of the agent by their ids, unordered. A text that it bought or received before
     * stays foreign when it is written again, and so do insights from what was bought.
     */
    async memoriesForSale(
      agentId: string,
      ids: readonly string[],
      at: Date,
    ): Promise<MemoryForSale[]> {
      return sql<MemoryForSale[]>`
        with bought as materialized (select b.id, b.content, b.at from vault_memories b
            where b.agent_id = ${agentId}::uuid and b.origin->>'by' in ('pack', 'listing')),
          foreign_texts as (select content, min(at) as at, min(reason) as reason from (
              select content, at, 'bought' as reason from bought
              union all select content, at, 'shared' from vault_shares where to_agent = ${agentId}::uuid) t
            group by content)
        select m.id, m.content, m.type, m.tags, case
            when m.origin->'sources' ?| array(select id::text from bought) then 'bought'
            else f.reason end as foreign
          from vault_memories m left join foreign_texts f on f.content = m.content and f.at <= m.at
         where ${liveMemoriesSql(sql, agentId, at)} and m.id = any(${toTextArrayLiteral(ids)}::uuid[])`
    },
  }
}
export type MemoryMarketplaceStore = ReturnType<typeof createMemoryMarketplaceStore>

interface ListingRow {
  listing_id: string
  seller_id: string
  name: string
  description: string
  price_micros: bigint
  accepts_promo: boolean
  memory_ids: string[]
  types: string[]
  tags: string[]
  previews: string[]
  created_at: Date
  withdrawn_at: Date | null
  is_seller_public: boolean
  sold: number
  ratings: number
  stars: number
}

interface PurchaseRow {
  purchase_id: string
  listing_id: string
  name: string
  price_micros: bigint
  entries: number
  stars: number | null
  at: Date
}

const fromRow = (row: ListingRow): MemoryListingRecord => ({
  listingId: row.listing_id,
  sellerId: row.seller_id,
  name: row.name,
  description: row.description,
  price: asMicros(row.price_micros),
  acceptsPromo: row.accepts_promo,
  memoryIds: row.memory_ids,
  types: row.types,
  tags: row.tags,
  previews: row.previews,
  createdAt: row.created_at,
  isSellerPublic: row.is_seller_public,
  withdrawnAt: row.withdrawn_at,
  sold: row.sold,
  ratings: row.ratings,
  stars: row.stars,
})
