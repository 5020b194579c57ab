import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { toUsdc } from '../../../core/money.ts'
import { acceptsHtml } from '../../accepts-html.ts'
import {
  createCachedDocumentHandler,
  type CachedDocumentHandler,
} from '../../cached-http-document.ts'
import { HTML_PAGE_CONTENT_TYPE, setHtmlPageHeaders } from '../../html-page-reply.ts'
import { keylessRailsOf } from '../../openapi/openapi-payment-info.ts'

/** Routes for the pages of tools. Programs get what `/api/tools` answers. */

const config = { auth: 'none', ignoresUnknownQuery: true } as const
/** Pages that are kept with their compressed forms. */
const MAX_KEPT_PAGES = 300

const getToolPage = {
  config,
  schema: { hide: true, params: Type.Object({ name: Type.String({ maxLength: 64 }) }) },
} as const

/** The page of each tool, with a form that runs it. */
export const toolPageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { catalogue, clock, config: settings, pages, paying } = app.services
  const { publicUrl } = settings
  const kept = new Map<string, CachedDocumentHandler>()

  function pageOf(slug: string): CachedDocumentHandler {
    const known = kept.get(slug)
    if (known !== undefined) return known
    if (kept.size >= MAX_KEPT_PAGES) kept.clear()
    const read = async () => {
      await catalogue.load(slug)
      const tool = catalogue.toEntry(catalogue.get(slug))
      const starterUsdc = toUsdc(settings.starterCredits)
      return pages.tool({ publicUrl, starterUsdc, keylessRails: keylessRailsOf(paying), tool })
    }
    const page = createCachedDocumentHandler({ clock, read, type: HTML_PAGE_CONTENT_TYPE })
    kept.set(slug, page)
    return page
  }

  app.get('/tools', { config, schema: { hide: true } }, async (request, reply) =>
    reply.header('vary', 'Accept').redirect(acceptsHtml(request) ? '/#tools' : '/api/tools', 302),
  )

  app.get('/tools/:name', getToolPage, async (request, reply) => {
    await catalogue.load(request.params.name)
    const tool = catalogue.get(request.params.name)
    reply.header('vary', 'Accept')
    if (!acceptsHtml(request)) return catalogue.toEntry(tool)
    pageOf(tool.slug)(request, setHtmlPageHeaders(reply))
    return reply
  })
}
