import { SECOND, type Clock } from '../../core/clock.ts'
import { createSingleValueTtlCache } from '../../core/concurrency/timed-cache.ts'
import { LIMITS } from '../../core/limits.ts'
import type {
  MilestoneStore,
  PostedMilestone,
} from '../../persistence/statistics/milestone-store.ts'
import type {
  PublicStatisticsStore,
  ScoredAgent,
  StationTotals,
} from '../../persistence/statistics/public-statistics-store.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'

/** Public figures of the station, read from the database at most once in their cache time. */

const TOTALS_TTL_MS = 2 * SECOND
/** How long a leaderboard is served. */
export const LEADERBOARD_TTL_MS = 30 * SECOND

/** A value and when it was read, in milliseconds since the epoch. */
export interface ValueWithReadTime<T> {
  readonly at: number
  readonly value: T
}

export interface PublicStatistics {
  totals(): Promise<ValueWithReadTime<StationTotals>>
  /** All ranked agents that may be named, at most 100. */
  leaderboard(): Promise<ValueWithReadTime<readonly ScoredAgent[]>>
  /** The latest milestones of agents that may be named, newest first. */
  milestones(): Promise<ValueWithReadTime<readonly PostedMilestone[]>>
  /** An agent that may be named; null for an unknown or private one. */
  findAgent(agentId: string): Promise<ScoredAgent | null>
  /** Brings the sums and the milestones up to date. */
  rollUp(): Promise<unknown>
}

/** Creates the statistics service. Sums are brought up to date before they are read. */
export function createPublicStatistics(
  store: PublicStatisticsStore,
  posts: MilestoneStore,
  clock: Pick<Clock, 'now' | 'mono'>,
): PublicStatistics {
  const rollUp = cached(clock, TOTALS_TTL_MS, () => store.rollUp())
  return {
    totals: cached(clock, TOTALS_TTL_MS, async () => {
      await rollUp()
      return store.totals()
    }),
    leaderboard: cached(clock, LEADERBOARD_TTL_MS, async () => {
      await rollUp()
      return store.leaderboard(LIMITS.leaderboardMax)
    }),
    milestones: cached(clock, LEADERBOARD_TTL_MS, async () => {
      await rollUp()
      return posts.latest(LIMITS.milestonesMax, LIMITS.milestonesOfUnpaidMax)
    }),
    rollUp,
    findAgent: (agentId) => withDatabaseAnswerTimeout(store.findAgent(agentId)),
  }
}

/** Waits for the database only as long as a service may, and dates what was read. */
function cached<T>(
  clock: Pick<Clock, 'now' | 'mono'>,
  ttlMs: number,
  read: () => Promise<T>,
): () => Promise<ValueWithReadTime<T>> {
  const readDated = createSingleValueTtlCache(clock, ttlMs, async () => {
    const at = clock.now()
    return { at, value: await read() }
  })
  return () => withDatabaseAnswerTimeout(readDated())
}
