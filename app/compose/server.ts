import type { FastifyInstance } from 'fastify'
import { buildHttpServer } from '../../http/server.ts'
import type { HttpConfig, HttpServices } from '../../http/services.ts'
import { renderFundPage, toFundStatusTexts, renderAgentNotFoundPage } from '../../web/fund-page.ts'
import type { StationInfrastructure } from './infrastructure.ts'
import { installGracefulClose } from '../graceful-close.ts'
import { VERSION } from '../version.ts'

/** What the other parts serve. */
export type RouteServices = Omit<HttpServices, 'config' | 'clock' | 'plane' | 'pages'>

/** The HTTP server over everything that the parts serve; it does not listen yet. */
export async function composeServer(
  ground: StationInfrastructure,
  served: RouteServices,
): Promise<FastifyInstance> {
  const { clock, plane } = ground
  const server = await buildHttpServer({
    ...served,
    config: httpConfig(ground),
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
