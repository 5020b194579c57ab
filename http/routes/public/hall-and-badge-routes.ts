import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { httpStatusOf } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { toUsdc } from '../../../core/money.ts'
import { HALL_OF_AGENTS_TIERS, toAgentTierOfScore } from '../../../domain/leaderboard-tiers.ts'
import { acceptsHtml } from '../../accepts-html.ts'
import { sendHtmlPage } from '../../html-page-reply.ts'
import { errorResponses, schemaRef } from '../../schemas/shared-schemas.ts'
import { toRankedAgentViews, RankedAgentSchema } from '../../schemas/statistics-schemas.ts'
import { sendSvg, svgOpenApiResponse } from './svg-reply.ts'

/** Routes for the hall of agents and for badges to embed. */

const tags = ['statistics']
const config = { auth: 'none', ignoresUnknownQuery: true } as const

const getHall = {
  config,
  schema: {
    operationId: 'getHallOfAgents',
    summary: 'Holders of the tiers mythic, legendary and elite',
    description: 'A page for browsers, JSON for everything else.',
    tags,
    response: {
      200: Type.Object({ agents: Type.Array(schemaRef(RankedAgentSchema)) }),
      ...errorResponses,
    },
  },
}

const getAgentBadge = {
  config,
  schema: {
    operationId: 'getAgentBadge',
    summary: 'The badge of an agent: its tier',
    description: 'An agent that may not be named has a badge without its name or tier, with 404.',
    tags,
    params: Type.Object({
      agent_id: Type.String({ maxLength: 64, description: 'The id of the agent.' }),
    }),
    response: { 200: svgOpenApiResponse, ...errorResponses },
  },
}

const getStatsBadge = {
  config,
  schema: {
    operationId: 'getStatsBadge',
    summary: "A badge with the station's calls of the last 24 hours",
    tags,
    response: { 200: svgOpenApiResponse, ...errorResponses },
  },
}

/** The hall and badges. Only agents that agreed to be found are named. */
export const hallOfAgentsAndBadgeRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const {
    config: { publicUrl },
    pages,
    statistics,
  } = app.services
  app.addSchema(RankedAgentSchema)

  app.get('/hall-of-agents', getHall, async (request, reply) => {
    const { value } = await statistics.leaderboard()
    const holders = value.filter(({ score }) =>
      HALL_OF_AGENTS_TIERS.includes(toAgentTierOfScore(score)),
    )
    reply.header('vary', 'Accept').header('cache-control', 'public, max-age=30')
    if (!acceptsHtml(request)) return { agents: toRankedAgentViews(holders, publicUrl) }
    return sendHtmlPage(reply, pages.hall(holders))
  })

  app.get('/embed/badge/:agent_id.svg', getAgentBadge, async ({ params }, reply) => {
    const { agent_id: id } = params
    const agent = isUuid(id) ? await statistics.findAgent(id.toLowerCase()) : null
    if (agent === null) {
      reply.code(httpStatusOf('agent_not_found'))
      return sendSvg(
        reply,
        pages.badge({ label: 'gas station', value: 'unknown', colour: 'neutral' }),
      )
    }
    const tier = toAgentTierOfScore(agent.score)
    const colour = HALL_OF_AGENTS_TIERS.includes(tier) ? 'gold' : 'good'
    return sendSvg(reply, pages.badge({ label: agent.name, value: tier, colour }))
  })

  app.get('/embed/stats.svg', getStatsBadge, async (_request, reply) => {
    const { value } = await statistics.totals()
    const { calls, volume } = value.lastDay
    const text = `${calls} calls, ${toUsdc(volume)} USDC / 24h`
    return sendSvg(reply, pages.badge({ label: 'gas station', value: text, colour: 'good' }))
  })
}
