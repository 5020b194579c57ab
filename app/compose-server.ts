import type { FastifyInstance } from 'fastify'
import { buildServer } from '../http/server.ts'
import type { HttpConfig, Services } from '../http/services.ts'
import { fundPage, fundTexts, noAgentPage } from '../web/fund.ts'
import type { Ground } from './compose-ground.ts'
import { closesPolitely } from './goodbye.ts'
import { VERSION } from './version.ts'

/** What the other parts serve. */
export type Served = Omit<Services, 'config' | 'clock' | 'plane' | 'pages'>

/** The HTTP server over everything that the parts serve; it does not listen yet. */
export async function composeServer(ground: Ground, served: Served): Promise<FastifyInstance> {
  const { clock, plane } = ground
  const server = await buildServer({
    ...served,
    config: httpConfig(ground),
    clock,
    plane,
    pages: { fund: fundPage, fundTexts, noAgent: noAgentPage },
  })
  closesPolitely(server.server)
  return server
}

function httpConfig({ config, publicUrl, own }: Ground): HttpConfig {
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
