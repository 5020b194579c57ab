import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { acceptsHtml } from '../../accepts-html.ts'
import { createCachedDocumentHandler } from '../../cached-http-document.ts'
import { HTML_PAGE_CONTENT_TYPE, sendHtmlPage, setHtmlPageHeaders } from '../../html-page-reply.ts'
import { toMemoryListingView } from '../memory/memory-marketplace-views.ts'

/** Routes for the pages of the marketplace. Programs are sent to the API. */

const config = { auth: 'none', ignoresUnknownQuery: true } as const
const MAX_LISTED = 100
const EVERYTHING = { text: null, type: null, tag: null, maxPrice: null } as const

const getListingPage = {
  config,
  schema: { hide: true, params: Type.Object({ pack_id: Type.String({ maxLength: 64 }) }) },
} as const

/** Open listings, and each listing by its id. */
export const memoryListingPageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { marketplace, clock, config: settings, pages } = app.services
  const list = createCachedDocumentHandler({
    clock,
    type: HTML_PAGE_CONTENT_TYPE,
    read: async () => {
      const open = await marketplace.store.open(EVERYTHING, MAX_LISTED, null)
      return pages.listingList((await marketplace.withReputations(open)).map(toMemoryListingView))
    },
  })

  app.get('/marketplace', { config, schema: { hide: true } }, async (request, reply) => {
    reply.header('vary', 'Accept')
    if (!acceptsHtml(request)) return reply.redirect('/api/marketplace', 302)
    list(request, setHtmlPageHeaders(reply))
    return reply
  })

  app.get('/marketplace/:pack_id', getListingPage, async (request, reply) => {
    const id = request.params.pack_id.toLowerCase()
    if (!isUuid(id)) throw new ServiceError('listing_not_found')
    reply.header('vary', 'Accept')
    if (!acceptsHtml(request)) return reply.redirect(`/api/marketplace/${id}`, 302)
    const found = await marketplace.withReputations([await marketplace.find(id)])
    const [listing = null] = found.map(toMemoryListingView)
    if (listing === null) throw new ServiceError('listing_not_found')
    return sendHtmlPage(
      reply.header('cache-control', 'no-store'),
      pages.listing(listing, settings.publicUrl),
    )
  })
}
