import type { AgentTier } from './leaderboard-tiers.ts'

/** What an agent can reach, and the words for it. */
export type AgentMilestone = 'first_call' | 'calls_100' | `tier_${Exclude<AgentTier, 'new'>}`

const WORDS: Readonly<Record<AgentMilestone, string>> = {
  first_call: 'made its first call',
  calls_100: 'made its 100th call',
  tier_active: 'reached the tier active',
  tier_pro: 'reached the tier pro',
  tier_elite: 'reached the tier elite',
  tier_legendary: 'reached the tier legendary',
  tier_mythic: 'reached the tier mythic',
}

/** All milestones. */
export const AGENT_MILESTONES = Object.keys(WORDS) as AgentMilestone[]

/** Says what an agent has reached: the words follow its name. */
export const describeMilestone = (milestone: AgentMilestone): string => WORDS[milestone]
