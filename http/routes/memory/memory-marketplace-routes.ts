import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { ServiceError } from '../../../core/errors.ts'
import { fromUsdc } from '../../../core/money.ts'
import { toSpenderPreload } from '../../actions/spender-preload.ts'
import {
  toRequestSpendingLimits,
  withBackpackRefusalLogging,
} from '../../auth/request-api-key-and-backpack.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate } from '../../schemas/pagination.ts'
import { toIsoTime } from '../../schemas/shared-schemas.ts'
import * as schemas from './memory-marketplace-schemas.ts'
import {
  toMemoryPurchaseReply,
  toNewMemoryListingReply,
  toMemoryListingView,
  toOwnMemoryListingView,
  toMemoryPurchaseView,
  toMemoryListingRatingReply,
} from './memory-marketplace-views.ts'

/** Routes of the marketplace: agents sell copies of their memories to each other (decision 230). */
export const memoryMarketplaceRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { marketplace, once } = app.services
  app.addSchema(schemas.MemoryListingViewSchema)

  app.get('/api/marketplace', schemas.browseMemoryMarketplaceRoute, async ({ query }, reply) => {
    reply.header('cache-control', 'no-store')
    const { q: text = null, type = null, tag = null, max_price_usdc: max } = query
    const maxPrice = max === undefined ? null : fromUsdc(max, '/max_price_usdc')
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => marketplace.store.open({ text, type, tag, maxPrice }, limit, before),
      ({ listingId }) => listingId,
    )
    const listings = (await marketplace.withReputations(rows)).map(toMemoryListingView)
    return { listings, count: listings.length, next_cursor }
  })

  app.get(
    '/api/marketplace/mine',
    schemas.listOwnMemoryListingsRoute,
    async ({ agentId, query }) => {
      const { rows, next_cursor } = await paginate(
        query,
        CURSOR_PATTERNS.uuid,
        (limit, before) => marketplace.store.ofSeller(agentId, limit, before),
        ({ listingId }) => listingId,
      )
      const listings = (await marketplace.withReputations(rows)).map(toOwnMemoryListingView)
      return { listings, count: listings.length, next_cursor }
    },
  )

  app.get(
    '/api/marketplace/bought',
    schemas.listMemoryPurchasesRoute,
    async ({ agentId, query }) => {
      const { rows, next_cursor } = await paginate(
        query,
        CURSOR_PATTERNS.uuid,
        (limit, before) => marketplace.store.boughtBy(agentId, limit, before),
        ({ purchaseId }) => purchaseId,
      )
      return { purchases: rows.map(toMemoryPurchaseView), count: rows.length, next_cursor }
    },
  )

  app.get('/api/marketplace/:pack_id', schemas.getMemoryListingRoute, async ({ params }) => {
    const listing = await marketplace.find(params.pack_id)
    const [shown = null] = (await marketplace.withReputations([listing])).map(toMemoryListingView)
    if (shown === null) throw new ServiceError('listing_not_found')
    return shown
  })

  app.post('/api/marketplace/list', schemas.offerMemoriesForSaleRoute, async (request, reply) => {
    const { name, description, entry_ids: memoryIds, price_usdc, accepts_promo } = request.body
    const price = fromUsdc(price_usdc, '/price_usdc')
    const terms = { name, description, price, acceptsPromo: accepts_promo ?? false, memoryIds }
    return sendIdempotentReply(
      reply,
      once.runCommand(toIdempotentRequest(request), toNewMemoryListingReply, (options) =>
        marketplace.list(request.agentId, terms, options),
      ),
    )
  })

  app.post(
    '/api/marketplace/buy/:pack_id',
    schemas.buyMemoryListingRoute,
    async (request, reply) => {
      const spender = toRequestSpendingLimits(request)
      return sendIdempotentReply(
        reply,
        once.runCommand(toIdempotentRequest(request), toMemoryPurchaseReply, (options) =>
          withBackpackRefusalLogging(request, 'purchase', () =>
            marketplace.buy(request.agentId, request.params.pack_id, spender, {
              ...toSpenderPreload(spender),
              ...options,
            }),
          ),
        ),
      )
    },
  )

  app.post(
    '/api/marketplace/rate/:pack_id',
    schemas.rateMemoryListingRoute,
    async (request, reply) => {
      const { agentId, params, body } = request
      return sendIdempotentReply(
        reply,
        once.runCommand(
          toIdempotentRequest(request),
          toMemoryListingRatingReply(params.pack_id, body.stars),
          (options) => marketplace.rate(agentId, params.pack_id, body.stars, options),
        ),
      )
    },
  )

  app.delete(
    '/api/marketplace/:pack_id',
    schemas.withdrawMemoryListingRoute,
    async (request, reply) => {
      const one = toIdempotentRequest(request)
      const listing = await marketplace.find(request.params.pack_id)
      // The reply is stored in the commit of the listing, so its key is scoped to the agent.
      const key = one.key === null ? null : `${request.agentId} ${one.key}`
      return sendIdempotentReply(
        reply,
        once.runCommand(
          { ...one, owner: listing.listingId, key },
          ({ at }: { at: number }) => ({
            status: 200,
            body: {
              pack_id: listing.listingId,
              status: 'withdrawn',
              withdrawn_at: toIsoTime(at),
            },
          }),
          (options) => marketplace.withdraw(listing, request.agentId, options),
        ),
      )
    },
  )
}
