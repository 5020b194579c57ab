import type { Clock } from '../../core/clock.ts'
import { DAY } from '../../core/clock.ts'
import { toUsdc } from '../../core/money.ts'
import type {
  ReputationStore,
  AgentTrackRecord,
} from '../../persistence/agents/reputation-store.ts'

/** Reputation scores of agents. */

export interface ReputationScore {
  /** 0 to 100. */
  readonly score: number
  readonly tier: string
  /** Lower bound of the Wilson interval at 95 %, over all public calls of the agent. */
  readonly reliability: number
  readonly calls: number
  readonly tipsReceived: number
  readonly hiveEntries: number
  readonly ageDays: number
  /** 0 to 1 each. */
  readonly components: Readonly<Record<string, number>>
}

/** The weight of each component; they sum to 100. */
const WEIGHTS = { reliability: 40, experience: 20, hive: 15, age: 15, tips: 10 } as const

const TIERS = [
  [90, 'mythic'],
  [75, 'legendary'],
  [60, 'elite'],
  [40, 'trusted'],
  [20, 'rising'],
] as const

/** Scores agents by their public record in the ledger. */
export function createReputationService(store: ReputationStore, clock: Clock) {
  return {
    async reputation(agentId: string): Promise<ReputationScore | null> {
      const standing = await store.standingOf(agentId)
      return standing === null ? null : computeReputation(standing, clock.now())
    },
  }
}

/**
 * The score of a track record: each component saturates, so no single one can be bought without
 * limit.
 */
export function computeReputation(standing: AgentTrackRecord, now: number): ReputationScore {
  const ageDays = Math.max(0, now - standing.createdAt.getTime()) / DAY
  const tips = toUsdc(standing.tipsReceived)
  const reliability = round(wilsonLowerBound(standing.succeeded, standing.calls), 4)
  const components = {
    reliability,
    experience: saturate(standing.calls, 200),
    hive: saturate(standing.hiveEntries + standing.hiveReads / 2, 20),
    age: saturate(ageDays, 60),
    tips: saturate(tips, 5),
  }
  const names = Object.keys(WEIGHTS) as (keyof typeof WEIGHTS)[]
  const score = Math.round(names.reduce((sum, name) => sum + WEIGHTS[name] * components[name], 0))
  return {
    score,
    tier: TIERS.find(([least]) => score >= least)?.[1] ?? 'newcomer',
    reliability,
    calls: standing.calls,
    tipsReceived: tips,
    hiveEntries: standing.hiveEntries,
    ageDays: round(ageDays, 2),
    components,
  }
}

const Z = 1.96

/** The success rate with 95 % confidence: few calls prove little. */
export function wilsonLowerBound(successes: number, trials: number): number {
  if (trials === 0) return 0
  const share = successes / trials
  const centre = share + Z ** 2 / (2 * trials)
  const spread = Z * Math.sqrt((share * (1 - share)) / trials + Z ** 2 / (4 * trials ** 2))
  return Math.max(0, (centre - spread) / (1 + Z ** 2 / trials))
}

const saturate = (amount: number, scale: number): number => round(1 - Math.exp(-amount / scale), 4)

const round = (value: number, decimals: number): number =>
  Math.round(value * 10 ** decimals) / 10 ** decimals
