import { Type, type Static } from 'typebox'
import { toUsdc } from '../../core/money.ts'
import { AGENT_MILESTONES, describeMilestone } from '../../domain/agent-milestones.ts'
import { AGENT_TIERS, toAgentTierOfScore } from '../../domain/leaderboard-tiers.ts'
import type { ValueWithReadTime } from '../../memory/statistics/public-statistics.ts'
import type { PostedMilestone } from '../../persistence/statistics/milestone-store.ts'
import type {
  ScoredAgent,
  StationTotals,
} from '../../persistence/statistics/public-statistics-store.ts'
import {
  DateTimeSchema,
  Nullable,
  toIsoTime,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from './shared-schemas.ts'

/** Schemas of public figures, and the figures in their form. */

export const AgentTierSchema = Type.Enum(AGENT_TIERS.map(({ tier }) => tier))

export const StationStatsSchema = Type.Object(
  {
    agents_total: Type.Integer(),
    agents_active_24h: Type.Integer({
      description: 'Agents with a tool call in the last 24 hours.',
    }),
    tools_total: Type.Integer(),
    calls_total: Type.Integer({ description: 'Successful tool calls.' }),
    calls_24h: Type.Integer({ description: 'Successful tool calls since `window_since`.' }),
    success_rate_24h: Nullable(
      Type.Number({
        description: 'Successful calls among all since `window_since`, 0 to 1; null without one.',
      }),
    ),
    usdc_volume_total: Type.Number({
      description: 'Prices of all calls, as the ledger has them.',
    }),
    usdc_volume_24h: Type.Number({
      description: 'Prices of calls since `window_since`, as the ledger has them.',
    }),
    window_since: DateTimeSchema,
    hive_entries_public: Type.Integer(),
    bounties_open: Type.Integer(),
    bounty_rewards_open_usdc: ResponseUsdcAmountSchema,
    generated_at: DateTimeSchema,
  },
  { $id: 'StationStats' },
)

export const RankedAgentSchema = Type.Object(
  {
    rank: Type.Integer(),
    agent_id: UuidSchema,
    name: Type.String(),
    framework: Nullable(Type.String()),
    tier: AgentTierSchema,
    score_usdc: ResponseUsdcAmountSchema,
    calls: Type.Integer({ description: 'Successful public tool calls.' }),
    badge_url: Type.String(),
    joined_at: DateTimeSchema,
  },
  { $id: 'RankedAgent' },
)

/** The figures as `/api/stats` and its stream send them. */
export const toStationStatsView = (
  { at, value }: ValueWithReadTime<StationTotals>,
  tools: number,
): Static<typeof StationStatsSchema> => {
  const { since, calls, failed, volume } = value.lastDay
  const all = calls + failed
  return {
    agents_total: value.agents,
    agents_active_24h: value.activeAgents,
    tools_total: tools,
    calls_total: value.calls,
    calls_24h: calls,
    success_rate_24h: all === 0 ? null : Math.round((calls / all) * 10_000) / 10_000,
    usdc_volume_total: toUsdc(value.volume),
    usdc_volume_24h: toUsdc(volume),
    window_since: toIsoTime(since),
    hive_entries_public: value.hiveEntries,
    bounties_open: value.openBounties,
    bounty_rewards_open_usdc: toUsdc(value.openBountyRewards),
    generated_at: toIsoTime(at),
  }
}

/** Agents of a ranking, highest score first. */
export const toRankedAgentViews = (
  agents: readonly ScoredAgent[],
  publicUrl: string,
): Static<typeof RankedAgentSchema>[] =>
  agents.map((agent, at) => ({
    rank: at + 1,
    agent_id: agent.agentId,
    name: agent.name,
    framework: agent.framework,
    tier: toAgentTierOfScore(agent.score),
    score_usdc: toUsdc(agent.score),
    calls: agent.calls,
    badge_url: `${publicUrl}/embed/badge/${agent.agentId}.svg`,
    joined_at: toIsoTime(agent.createdAt),
  }))

export const AgentMilestoneSchema = Type.Object(
  {
    agent_id: UuidSchema,
    name: Type.String(),
    milestone: Type.Enum(AGENT_MILESTONES, {
      description: 'What the agent has reached; each is posted once.',
    }),
    text: Type.String({ description: 'The same in words, with the name of the agent.' }),
    posted_at: DateTimeSchema,
  },
  { $id: 'Milestone' },
)

/** A milestone as the feeds have it. */
export const toAgentMilestoneView = ({
  agentId,
  name,
  milestone,
  postedAt,
}: PostedMilestone): Static<typeof AgentMilestoneSchema> => ({
  agent_id: agentId,
  name,
  milestone,
  text: `${name} ${describeMilestone(milestone)}.`,
  posted_at: toIsoTime(postedAt),
})
