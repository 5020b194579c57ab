import type { FastifyInstance } from 'fastify'
import { buildHttpServer } from '../../http/http-server.ts'
import type { HttpConfig, HttpServices } from '../../http/http-services.ts'
import { renderFundPage, toFundStatusTexts, renderAgentNotFoundPage } from '../../web/fund-page.ts'
import type { StationInfrastructure } from './compose-infrastructure.ts'
import { installGracefulClose } from '../graceful-close.ts'
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
    pages: { fund: renderFundPage, fundTexts: toFundStatusTexts, noAgent: renderAgentNotFoundPage },
  })
  installGracefulClose(server.server)
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
