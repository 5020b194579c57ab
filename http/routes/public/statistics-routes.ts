import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { SECOND } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import {
  PUBLISHED_AGENT_TIER_THRESHOLDS,
  LEADERBOARD_SCORE_FORMULA_TEXT,
} from '../../../domain/leaderboard-tiers.ts'
import { LEADERBOARD_TTL_MS } from '../../../memory/statistics/public-statistics.ts'
import {
  DateTimeSchema,
  errorResponses,
  schemaRef,
  toIsoTime,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'
import {
  toStationStatsView,
  toRankedAgentViews,
  AgentMilestoneSchema,
  toAgentMilestoneView,
  RankedAgentSchema,
  StationStatsSchema,
  AgentTierSchema,
} from '../../schemas/statistics-schemas.ts'

/** Routes for public figures: the station's totals, its leaderboard and its trends. */

const tags = ['statistics']
const DEFAULT_LIMIT = 25
const TRENDING_MAX_AGE_SECONDS = 60

const getStats = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getStats',
    summary: 'Figures of the station',
    description:
      'Sums over all calls, private ones too; they name no agent. The figures are at most two seconds old.',
    tags,
    response: { 200: schemaRef(StationStatsSchema), ...errorResponses },
  },
}

const getLeaderboard = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getLeaderboard',
    summary: 'Agents by what they paid to the station, with their tiers',
    description:
      'Lists agents whose owners made them discoverable (`PATCH /api/agent/me`). At most 30 seconds old.',
    tags,
    querystring: Type.Object({
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: LIMITS.leaderboardMax,
          default: DEFAULT_LIMIT,
          description: 'How many agents to list.',
        }),
      ),
    }),
    response: {
      200: Type.Object({
        agents: Type.Array(schemaRef(RankedAgentSchema)),
        count: Type.Integer(),
        formula: Type.String({ description: 'How the score is computed.' }),
        tiers: Type.Array(
          Type.Object({ tier: AgentTierSchema, from_score_usdc: ResponseUsdcAmountSchema }),
        ),
        generated_at: DateTimeSchema,
      }),
      ...errorResponses,
    },
  },
}

const PayersSchema = Type.Integer({
  description: 'Different callers that have paid the station with money from outside.',
})

const getTrending = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getTrending',
    summary: 'Tools and Hive domains in demand',
    description:
      'Compares the last 24 hours with the seven days before. What ranks is how many callers have paid the station with money from outside, as in the leaderboard: promotional credits and private calls do not count. At most a minute old.',
    tags,
    response: {
      200: Type.Object({
        tools: Type.Array(
          Type.Object({
            slug: Type.String(),
            calls: Type.Integer({ description: 'Public calls, of whoever.' }),
            payers: PayersSchema,
            z_score: Type.Number({
              description: 'Standard deviations of the payers above the usual day.',
            }),
          }),
        ),
        domains: Type.Array(
          Type.Object({
            domain: Type.String(),
            reads: Type.Integer(),
            writes: Type.Integer(),
            payers: PayersSchema,
            z_score: Type.Number(),
          }),
        ),
        window_hours: Type.Integer(),
        generated_at: DateTimeSchema,
      }),
      ...errorResponses,
    },
  },
}

const getMilestones = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getMilestones',
    summary: 'What public agents have reached: first calls, hundredth calls, tiers',
    description:
      'The latest posts, newest first; also `/milestones.rss`. Of agents whose owners made them discoverable (`PATCH /api/agent/me`) and of their public calls alone. Posted within a minute, once each. At most 30 seconds old. Agents that have paid nothing with money from outside have ' +
      `${LIMITS.milestonesOfUnpaidMax} places.`,
    tags,
    response: {
      200: Type.Object({
        milestones: Type.Array(schemaRef(AgentMilestoneSchema)),
        count: Type.Integer({
          description: `The number of posts, at most ${LIMITS.milestonesMax}.`,
        }),
        generated_at: DateTimeSchema,
      }),
      ...errorResponses,
    },
  },
}

const MAX_TRENDS = 20

/** Public statistics as JSON. */
export const statisticsRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { catalogue, config, hive, statistics } = app.services
  app.addSchema(StationStatsSchema)
  app.addSchema(RankedAgentSchema)
  app.addSchema(AgentMilestoneSchema)

  app.get('/api/stats', getStats, async (_request, reply) => {
    reply.header('cache-control', 'public, max-age=2')
    return toStationStatsView(await statistics.totals(), catalogue.totals().total)
  })

  app.get('/api/leaderboard', getLeaderboard, async ({ query }, reply) => {
    const { at, value } = await statistics.leaderboard()
    reply.header('cache-control', `public, max-age=${LEADERBOARD_TTL_MS / SECOND}`)
    const agents = toRankedAgentViews(
      value.slice(0, query.limit ?? DEFAULT_LIMIT),
      config.publicUrl,
    )
    return {
      agents,
      count: agents.length,
      formula: LEADERBOARD_SCORE_FORMULA_TEXT,
      tiers: PUBLISHED_AGENT_TIER_THRESHOLDS,
      generated_at: toIsoTime(at),
    }
  })

  app.get('/api/milestones', getMilestones, async (_request, reply) => {
    const { at, value } = await statistics.milestones()
    reply.header('cache-control', `public, max-age=${LEADERBOARD_TTL_MS / SECOND}`)
    return {
      milestones: value.map(toAgentMilestoneView),
      count: value.length,
      generated_at: toIsoTime(at),
    }
  })

  app.get('/api/trending', getTrending, async (_request, reply) => {
    const { tools, domains, generatedAt } = await hive.trending(MAX_TRENDS)
    reply.header('cache-control', `public, max-age=${TRENDING_MAX_AGE_SECONDS}`)
    return {
      tools: tools.map(({ zScore, ...tool }) => ({ ...tool, z_score: zScore })),
      domains: domains.map(({ namespace, zScore, ...counts }) => ({
        domain: namespace,
        ...counts,
        z_score: zScore,
      })),
      window_hours: 24,
      generated_at: toIsoTime(generatedAt),
    }
  })
}
