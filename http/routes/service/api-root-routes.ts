import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { toUsdc } from '../../../core/money.ts'
import { acceptsHtml } from '../../accepts-html.ts'
import { createCachedDocumentHandler } from '../../cached-http-document.ts'
import { HTML_PAGE_CONTENT_TYPE, setHtmlPageHeaders } from '../../html-page-reply.ts'
import { keylessRailsOf } from '../../openapi/openapi-payment-info.ts'
import { errorResponses } from '../../schemas/shared-schemas.ts'
import { toStationStatsView } from '../../schemas/statistics-schemas.ts'

/** The root document of the API, and the first page for people. */

const UrlSchema = Type.String()

const apiRoot = {
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: {
    operationId: 'welcome',
    summary: 'What this service is, and where to start',
    description: 'A page for browsers, JSON for everything else.',
    tags: ['service'],
    response: {
      200: Type.Object({
        name: Type.String(),
        version: Type.String(),
        description: Type.String(),
        links: Type.Object({
          tools: UrlSchema,
          onboard: UrlSchema,
          mcp: UrlSchema,
          openapi: UrlSchema,
          docs: UrlSchema,
          health: UrlSchema,
        }),
      }),
      ...errorResponses,
    },
  },
}

const DESCRIPTION =
  'A pay-per-call tool API for autonomous agents. POST a name to `onboard` for a key, a wallet and starter credits.'
const PATHS = {
  tools: '/api/tools',
  onboard: '/api/onboard',
  mcp: '/mcp',
  openapi: '/api/openapi.json',
  docs: '/docs',
  health: '/api/network/health',
} as const

/** The same links for clients that read headers only (RFC 8631). */
const LINK_HEADER = [
  `<${PATHS.openapi}>; rel="service-desc"`,
  `<${PATHS.docs}>; rel="service-doc"`,
  `<${PATHS.health}>; rel="status"`,
].join(', ')

/** Links to the documentation and the entry points of the API. */
export const apiRootRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { catalogue, clock, config, pages, paying, statistics } = app.services
  const page = createCachedDocumentHandler({
    clock,
    type: HTML_PAGE_CONTENT_TYPE,
    read: async () => {
      const { total } = catalogue.totals()
      const tools = catalogue.short()
      const figures = await statistics.totals().then(
        (totals) => toStationStatsView(totals, total),
        // The page is there without the database, and its figures follow by themselves.
        () => null,
      )
      const starterUsdc = toUsdc(config.starterCredits)
      const keylessRails = keylessRailsOf(paying)
      return pages.home({ publicUrl: config.publicUrl, starterUsdc, keylessRails, tools, figures })
    },
  })
  const at = (path: string) => `${config.publicUrl}${path}`

  app.get('/', apiRoot, async (request, reply) => {
    reply.header('vary', 'Accept').header('link', LINK_HEADER)
    if (acceptsHtml(request)) {
      page(request, setHtmlPageHeaders(reply))
      return reply as never
    }
    reply.header('cache-control', 'public, max-age=60')
    return {
      name: 'Gas Station',
      version: config.version,
      description: DESCRIPTION,
      links: {
        tools: at(PATHS.tools),
        onboard: at(PATHS.onboard),
        mcp: at(PATHS.mcp),
        openapi: at(PATHS.openapi),
        docs: at(PATHS.docs),
        health: at(PATHS.health),
      },
    }
  })
}
