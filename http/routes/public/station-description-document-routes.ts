import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { TSchema } from 'typebox'
import { selectToolsForModels } from '../../../tools/tools-shown-to-models.ts'
import { createCachedDocumentHandler } from '../../cached-http-document.ts'
import { describeApiConventions } from '../../documents/api-standard-document.ts'
import { describePrices } from '../../documents/pricing-document.ts'
import { describeAgentWelcome } from '../../documents/agent-welcome-document.ts'
import { describeStorefront } from '../../documents/storefront-document.ts'
import {
  AgentWelcomeSchema,
  ApiConventionsSchema,
  PricingSchema,
  StorefrontSchema,
  WhatsNewSchema,
} from '../../schemas/station-description-document-schemas.ts'
import { errorResponses, toIsoTime } from '../../schemas/shared-schemas.ts'

/** Routes for documents that describe the station to agents: welcome, conventions, prices and news. */

const tags = ['service']
const JSON_TYPE = 'application/json; charset=utf-8'

const documentRoute = (operationId: string, summary: string, content: TSchema) => ({
  config: { auth: 'none' } as const,
  schema: { operationId, summary, tags, response: { 200: content, ...errorResponses } },
})

const MAX_REVISIONS = 50
/** Newest listings in the store; `/api/marketplace` has all. */
const STORE_LISTINGS = 100
const ANY_LISTING = { text: null, type: null, tag: null, maxPrice: null }

/** Documents that are the same for every reader. */
export const publicStationDocumentRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { catalogue, clock, config, marketplace, news, packs } = app.services
  const documents = {
    '/api/agent-welcome': {
      route: documentRoute('getAgentWelcome', 'What an agent needs to begin', AgentWelcomeSchema),
      read: () => describeAgentWelcome(config, catalogue.totals()),
    },
    '/api/standard': {
      route: documentRoute('getApiStandard', 'The conventions of this API', ApiConventionsSchema),
      read: () => describeApiConventions(config),
    },
    '/api/pricing.json': {
      route: documentRoute('getPricing', 'Every price, in one document', PricingSchema),
      read: () => describePrices(config, catalogue.short()),
    },
    '/api/store': {
      route: documentRoute(
        'getStore',
        'Everything for sale, and the request that buys it',
        StorefrontSchema,
      ),
      read: async () =>
        describeStorefront({
          publicUrl: config.publicUrl,
          tools: selectToolsForModels(catalogue.short(), { community: true }),
          packs: packs.packs,
          bundle: packs.bundle,
          listings: await marketplace.store.open(ANY_LISTING, STORE_LISTINGS, null),
        }),
    },
  } as const
  for (const [path, { route, read }] of Object.entries(documents))
    // Written whole: a member that its schema does not name is found by a test, not lost.
    app.get(
      path,
      route,
      createCachedDocumentHandler({
        clock,
        type: JSON_TYPE,
        read: async () => JSON.stringify(await read()),
      }),
    )

  const whatsNew = documentRoute(
    'getWhatsNew',
    'Releases, and changes of the catalogue',
    WhatsNewSchema,
  )
  app.get('/api/whats-new', whatsNew, async (_request, reply) => {
    const revisions = await news.revisionsAfter({ revision: 0 })
    reply.header('cache-control', 'public, max-age=60')
    return {
      schema: 'gas/whats-new/v1',
      version: news.version,
      releases: news.releases.map(({ version, releasedOn, notes }) => ({
        version,
        released_on: releasedOn,
        notes,
      })),
      catalogue: revisions.slice(0, MAX_REVISIONS).map(({ revision, at, version, changes }) => ({
        revision,
        at: toIsoTime(at),
        version,
        changes,
      })),
      links: { rss: `${config.publicUrl}/changelog.rss`, tools: `${config.publicUrl}/api/tools` },
    }
  })
}
