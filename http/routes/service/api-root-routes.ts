import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { errorResponses } from '../../schemas/shared-schemas.ts'

/** The root document of the API. */

const UrlSchema = Type.String()

const apiRoot = {
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: {
    operationId: 'welcome',
    summary: 'What this service is, and where to start',
    tags: ['service'],
    response: {
      200: Type.Object({
        name: Type.String(),
        version: Type.String(),
        description: Type.String(),
        links: Type.Object({
          tools: UrlSchema,
          onboard: UrlSchema,
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
  const { config } = app.services
  const at = (path: string) => `${config.publicUrl}${path}`

  app.get('/', apiRoot, async (_request, reply) => {
    reply.header('cache-control', 'public, max-age=60').header('link', LINK_HEADER)
    return {
      name: 'Gas Station',
      version: config.version,
      description: DESCRIPTION,
      links: {
        tools: at(PATHS.tools),
        onboard: at(PATHS.onboard),
        openapi: at(PATHS.openapi),
        docs: at(PATHS.docs),
        health: at(PATHS.health),
      },
    }
  })
}
