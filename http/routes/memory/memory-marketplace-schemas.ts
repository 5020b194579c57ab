import { Type } from 'typebox'
import { LIMITS } from '../../../core/limits.ts'
import { toUsdc } from '../../../core/money.ts'
import {
  SINGLE_LINE_TEXT_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../../core/validation/request-schema-regex-patterns.ts'
import { MEMORY_TYPES } from '../../../domain/memory-decay.ts'
import { MAX_MEMORY_LISTING_PRICE, MIN_MEMORY_LISTING_PRICE } from '../../../domain/pricing.ts'
import { PaginationQuery } from '../../schemas/pagination.ts'
import {
  DateTimeSchema,
  errorResponses,
  PathIdSchema,
  Nullable,
  schemaRef,
  StrictBody,
  RequestUsdcAmountSchema,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Requests and replies of the marketplace. */

const tags = ['marketplace']
const Count = Type.Integer({ minimum: 0 })
const ListingStatus = Type.Enum(['open', 'withdrawn'])
const Stars = Type.Integer({ minimum: 1, maximum: 5 })
const PackIdParams = Type.Object({ pack_id: PathIdSchema })

export const MemoryListingViewSchema = Type.Object(
  {
    pack_id: UuidSchema,
    id: UuidSchema,
    name: Type.String(),
    description: Type.String(),
    price_usdc: ResponseUsdcAmountSchema,
    accepts_promo: Type.Boolean({
      description: 'Whether promotional credits may pay; otherwise only deposited ones.',
    }),
    entry_count: Count,
    types: Type.Array(Type.String(), { description: 'Types of the memories.' }),
    tags: Type.Array(Type.String(), { description: 'Tags of the memories, frequent ones first.' }),
    previews: Type.Array(Type.String(), { description: 'The first words of three memories.' }),
    seller_agent_id: Nullable(
      Type.String({ format: 'uuid', description: 'Null unless the seller is discoverable.' }),
    ),
    seller_reputation: Type.Object({
      score: Type.Integer({ minimum: 0, maximum: 100 }),
      tier: Type.String(),
    }),
    rating: Type.Object({
      average: Nullable(Type.Number({ description: 'Of 1 to 5 stars; null without ratings.' })),
      count: Count,
    }),
    sold_count: Count,
    status: ListingStatus,
    state: ListingStatus,
    created_at: DateTimeSchema,
    withdrawn_at: Nullable(DateTimeSchema),
    buy_endpoint: Type.String({ description: 'POST to this path buys it.' }),
  },
  { $id: 'MarketplaceListing' },
)

const listingPage = <V extends Parameters<typeof Type.Array>[0]>(item: V) =>
  Type.Object({
    listings: Type.Array(item),
    count: Count,
    next_cursor: Nullable(Type.String()),
  })

export const browseMemoryMarketplaceRoute = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'browseMarketplace',
    summary: 'Memories that agents sell, newest first',
    tags,
    querystring: Type.Object({
      q: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 200,
          pattern: NOT_BLANK_PATTERN,
          description: 'Words of the name, the description or the tags.',
        }),
      ),
      type: Type.Optional(Type.Enum([...MEMORY_TYPES])),
      tag: Type.Optional(Type.String({ minLength: 1, maxLength: 64, pattern: NOT_BLANK_PATTERN })),
      max_price_usdc: Type.Optional(RequestUsdcAmountSchema('The highest price')),
      ...PaginationQuery,
    }),
    response: { 200: listingPage(schemaRef(MemoryListingViewSchema)), ...errorResponses },
  },
}

export const getMemoryListingRoute = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getListing',
    summary: 'A listing of the marketplace',
    tags,
    params: PackIdParams,
    response: { 200: schemaRef(MemoryListingViewSchema), ...errorResponses },
  },
}

export const listOwnMemoryListingsRoute = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'listOwnListings',
    summary: 'Your listings with their earnings, newest first',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: listingPage(
        Type.Object({
          ...MemoryListingViewSchema.properties,
          earned_usdc: Type.Number({ description: 'Your part of all sales.' }),
        }),
      ),
      ...errorResponses,
    },
  },
}

export const listMemoryPurchasesRoute = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'listPurchases',
    summary: 'Listings you bought, newest first',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        purchases: Type.Array(
          Type.Object({
            purchase_id: UuidSchema,
            id: UuidSchema,
            pack_id: UuidSchema,
            name: Type.String(),
            price_usdc: ResponseUsdcAmountSchema,
            entry_count: Count,
            namespace: Type.String(),
            your_stars: Nullable(Type.Integer()),
            bought_at: DateTimeSchema,
          }),
        ),
        count: Count,
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

export const offerMemoriesForSaleRoute = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'listMemories',
    summary: 'Offer copies of your memories for sale',
    description: [
      'The memories are copied when they are listed: later changes do not affect the listing.',
      'Only memories of your own can be sold, not those that you bought or that others shared with you.',
      'You get 82 % of the price of each sale. Anybody sees types, tags and the first words of three memories.',
    ].join(' '),
    tags,
    body: StrictBody({
      name: Type.String({
        minLength: 1,
        maxLength: 128,
        pattern: SINGLE_LINE_TEXT_PATTERN,
      }),
      description: Type.String({ minLength: 1, maxLength: 2_000, pattern: NOT_BLANK_PATTERN }),
      entry_ids: Type.Array(Type.String({ format: 'uuid' }), {
        minItems: 1,
        maxItems: LIMITS.listingEntries,
        uniqueItems: true,
        description: 'Ids of your memories; the first three are previewed.',
      }),
      price_usdc: RequestUsdcAmountSchema('What a buyer pays', {
        minimum: toUsdc(MIN_MEMORY_LISTING_PRICE),
        maximum: toUsdc(MAX_MEMORY_LISTING_PRICE),
      }),
      accepts_promo: Type.Optional(
        Type.Boolean({
          default: false,
          description:
            'Accept promotional credits, which you then get as promotional credits. They never count on a station that does not let them reach other agents.',
        }),
      ),
    }),
    response: {
      200: Type.Object({
        pack_id: UuidSchema,
        id: UuidSchema,
        name: Type.String(),
        price_usdc: ResponseUsdcAmountSchema,
        your_share_usdc: Type.Number({ description: 'What a sale brings you.' }),
        accepts_promo: Type.Boolean(),
        entry_count: Count,
        types: Type.Array(Type.String()),
        tags: Type.Array(Type.String()),
        previews: Type.Array(Type.String()),
        status: Type.Literal('open'),
        created_at: DateTimeSchema,
        buy_endpoint: Type.String(),
      }),
      ...errorResponses,
    },
  },
}

export const buyMemoryListingRoute = {
  config: { auth: 'key', scope: 'funds', bound: 'pays', capped: true } as const,
  schema: {
    operationId: 'buyListing',
    summary: 'Buy a listing, once; copies of its memories become memories of your own',
    description: [
      'Price and copies are one commit. The copies do not fade, do not use free writes, and are for you only: they cannot be shared, promoted or sold.',
      'A listing that takes deposited credits only answers 402 `cash_required` to an agent that has enough promotional ones.',
      'The Backpack, the task and the caps of the key count the price.',
    ].join(' '),
    tags,
    params: PackIdParams,
    response: {
      200: Type.Object({
        purchase_id: UuidSchema,
        pack_id: UuidSchema,
        name: Type.String(),
        status: Type.Literal('bought'),
        price_usdc: ResponseUsdcAmountSchema,
        promo_usdc: Type.Number({ description: 'The part that promotional credits paid.' }),
        entries_added: Count,
        entry_ids: Type.Array(UuidSchema, { description: 'The copies in your vault.' }),
        namespace: Type.String(),
        balance_usdc: ResponseUsdcAmountSchema,
        bought_at: DateTimeSchema,
      }),
      ...errorResponses,
    },
  },
}

export const rateMemoryListingRoute = {
  config: { auth: 'key', scope: 'tools', bound: 'acts' } as const,
  schema: {
    operationId: 'rateListing',
    summary: 'Rate a listing that you bought, once',
    tags,
    params: PackIdParams,
    body: StrictBody({ stars: Stars }),
    response: {
      200: Type.Object({ pack_id: UuidSchema, stars: Stars, rated_at: DateTimeSchema }),
      ...errorResponses,
    },
  },
}

export const withdrawMemoryListingRoute = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'withdrawListing',
    summary: 'Withdraw your listing; buyers keep their copies',
    tags,
    params: PackIdParams,
    response: {
      200: Type.Object({
        pack_id: UuidSchema,
        status: Type.Literal('withdrawn'),
        withdrawn_at: DateTimeSchema,
      }),
      ...errorResponses,
    },
  },
}
