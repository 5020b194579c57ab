import type { FastifyInstance } from 'fastify'
import { buildHttpServer } from '../../http/http-server.ts'
import type { HttpConfig, HttpServices } from '../../http/http-config-and-service-types.ts'
import { findGuideImage } from '../../web/guides/guide-files.ts'
import {
  listGuides,
  readGuideMarkdown,
  renderGuideListPage,
  renderGuidePage,
} from '../../web/pages/guide-pages.ts'
import { renderDigestSubscriptionPage } from '../../web/pages/weekly-digest-unsubscribe-page.ts'
import { renderErrorPage } from '../../web/pages/error-page.ts'
import { renderFundPage, toFundStatusTexts } from '../../web/pages/fund-page.ts'
import { renderHallOfAgentsPage } from '../../web/pages/hall-of-agents-page.ts'
import { renderHomePage } from '../../web/pages/home-page.ts'
import { renderBountyListPage, renderBountyPage } from '../../web/pages/bounty-pages.ts'
import {
  renderMemoryListingListPage,
  renderMemoryListingPage,
} from '../../web/pages/memory-listing-pages.ts'
import { renderProblemListPage, renderProblemPage } from '../../web/pages/error-code-pages.ts'
import { renderRecipeListPage, renderRecipePage } from '../../web/pages/recipe-pages.ts'
import { renderApiReferencePage } from '../../web/pages/api-reference-page.ts'
import { renderOwnerPage } from '../../web/pages/owner-page.ts'
import { renderToolPage } from '../../web/pages/tool-page.ts'
import { findPageAsset, pageAssetsVersion } from '../../web/page-assets.ts'
import { renderSvgBadge } from '../../web/svg-badge.ts'
import { renderRssFeed } from '../../web/feeds/rss-feed.ts'
import { findInspectorFile } from '../../web/inspector-page-files.ts'
import type { StationInfrastructure } from './compose-infrastructure.ts'
import { installGracefulHttpServerClose } from '../finish-http-responses-on-close.ts'
import { VERSION } from '../version.ts'

/** Composes the HTTP server. */

/** Services of the other parts. */
export type RouteServices = Omit<HttpServices, 'config' | 'clock' | 'plane' | 'pages'>

/** Creates the HTTP server. It does not listen yet. */
export async function composeServer(
  base: StationInfrastructure,
  served: RouteServices,
): Promise<FastifyInstance> {
  const { clock, plane } = base
  const server = await buildHttpServer({
    ...served,
    config: httpConfig(base),
    clock,
    plane,
    pages: {
      home: renderHomePage,
      tool: renderToolPage,
      guides: listGuides,
      guideList: renderGuideListPage,
      guide: renderGuidePage,
      guideMarkdown: readGuideMarkdown,
      guideImage: findGuideImage,
      reference: renderApiReferencePage,
      owner: renderOwnerPage,
      digest: renderDigestSubscriptionPage,
      problemList: renderProblemListPage,
      problem: renderProblemPage,
      recipeList: renderRecipeListPage,
      recipe: renderRecipePage,
      bountyList: renderBountyListPage,
      bounty: renderBountyPage,
      listingList: renderMemoryListingListPage,
      listing: renderMemoryListingPage,
      error: renderErrorPage,
      fund: renderFundPage,
      fundTexts: toFundStatusTexts,
      hall: renderHallOfAgentsPage,
      badge: renderSvgBadge,
      rss: renderRssFeed,
      asset: findPageAsset,
      assetsVersion: pageAssetsVersion,
      inspectorFile: findInspectorFile,
    },
  })
  installGracefulHttpServerClose(server.server)
  return server
}

function httpConfig({ config, publicUrl, own }: StationInfrastructure): HttpConfig {
  return {
    production: config.production,
    publicUrl,
    deposits: config.chain.deposits,
    version: VERSION,
    trustProxy: config.trustProxy,
    operatorToken: config.operatorToken,
    operatorContact: config.operatorContact,
    rateLimits: config.rateLimits,
    onboardPerHourPerIp: config.onboardPerHourPerIp,
    bulkOnboardMax: config.bulkOnboardMax,
    starterCredits: config.starterCredits,
    exposure: config.chain.exposure,
    promoTransferable: config.promoTransferable,
    logLevel: config.logLevel,
    visitorKey: own.visitor,
    fingerprintKey: own.fingerprints,
  }
}
