import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { acceptsHtml } from '../../accepts-html.ts'
import { createCachedDocumentHandler } from '../../cached-http-document.ts'
import { HTML_PAGE_CONTENT_TYPE, sendHtmlPage, setHtmlPageHeaders } from '../../html-page-reply.ts'
import { toBountyView } from '../payments/bounty-routes.ts'

/** Routes for the pages of bounties. Programs are sent to the API. */

const config = { auth: 'none', ignoresUnknownQuery: true } as const
const MAX_LISTED = 100

const getBountyPage = {
  config,
  schema: { hide: true, params: Type.Object({ id: Type.String({ maxLength: 64 }) }) },
} as const

/** Open bounties, and each bounty by its id. */
export const bountyPageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { bounties, clock, config: settings, pages } = app.services
  const list = createCachedDocumentHandler({
    clock,
    type: HTML_PAGE_CONTENT_TYPE,
    read: async () =>
      pages.bountyList(
        (await bounties.store.list('open', MAX_LISTED, null)).map((one) => toBountyView(one, null)),
      ),
  })

  app.get('/bounties', { config, schema: { hide: true } }, async (request, reply) => {
    reply.header('vary', 'Accept')
    if (!acceptsHtml(request)) return reply.redirect('/api/bounties', 302)
    list(request, setHtmlPageHeaders(reply))
    return reply
  })

  app.get('/bounties/:id', getBountyPage, async (request, reply) => {
    const { id } = request.params
    if (!isUuid(id)) throw new ServiceError('bounty_not_found')
    reply.header('vary', 'Accept')
    if (!acceptsHtml(request)) return reply.redirect(`/api/bounties/${id.toLowerCase()}`, 302)
    const bounty = toBountyView(await bounties.find(id.toLowerCase()), null)
    return sendHtmlPage(
      reply.header('cache-control', 'no-store'),
      pages.bounty(bounty, settings.publicUrl),
    )
  })
}
