import { fromUsdc, toUsdc, type Micros } from '../core/money.ts'

/** Tiers of agents and the formula of the leaderboard. */

export type AgentTier = (typeof AGENT_TIERS)[number]['tier']

/** Highest first; `from` is the lowest score of a tier. */
export const AGENT_TIERS = [
  { tier: 'mythic', from: fromUsdc(1_000) },
  { tier: 'legendary', from: fromUsdc(100) },
  { tier: 'elite', from: fromUsdc(25) },
  { tier: 'pro', from: fromUsdc(5) },
  { tier: 'active', from: fromUsdc(0.5) },
  { tier: 'new', from: fromUsdc(0) },
] as const

/** Tiers whose holders are in the hall of agents. */
export const HALL_OF_AGENTS_TIERS: readonly AgentTier[] = ['mythic', 'legendary', 'elite']

/** The formula in words, published beside every ranking. */
export const LEADERBOARD_SCORE_FORMULA_TEXT =
  'score_usdc = cash that the agent has paid to this station for public calls. Promotional credits, private ' +
  '(ghost) calls, tips, transfers, bounties, and shares of other agents do not count: money that returns to ' +
  'agents can circulate, and what is paid to the station cannot. Equal scores rank by agent id.'

/** Returns the tier of a score. */
export function toAgentTierOfScore(score: Micros): AgentTier {
  return AGENT_TIERS.find(({ from }) => score >= from)?.tier ?? 'new'
}

/** The tiers as they are published: lowest score of each, in USDC. */
export const PUBLISHED_AGENT_TIER_THRESHOLDS = AGENT_TIERS.map(({ tier, from }) => ({
  tier,
  from_score_usdc: toUsdc(from),
}))
