import { asMicros, type Micros } from '../../core/money.ts'
import { isPublicAgentSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { rollUpStatistics } from './roll-up-statistics.ts'

/** Public figures of the station and scores of its agents, summed from the ledger and the call log. */

/** Figures of the whole station; private calls are in the sums and name nobody. */
export interface StationTotals {
  readonly agents: number
  /** Agents with a tool call in the last 24 hours. */
  readonly activeAgents: number
  /** Successful tool calls since the station exists. */
  readonly calls: number
  readonly volume: Micros
  /** Whole minutes from `since` on; the running minute is included. */
  readonly lastDay: {
    readonly since: Date
    /** Successful ones, as in all (decision 432). */
    readonly calls: number
    readonly failed: number
    readonly volume: Micros
  }
  readonly hiveEntries: number
  readonly openBounties: number
  readonly openBountyRewards: Micros
}

/** An agent that agreed to be named, with its score. */
export interface ScoredAgent {
  readonly agentId: string
  readonly name: string
  readonly framework: string | null
  readonly createdAt: Date
  /** Cash that the agent has paid to the station for public calls. */
  readonly score: Micros
  /** Successful public calls. */
  readonly calls: number
}

/** Reads public figures; `rollUp` brings them up to date. */
export function createPublicStatisticsStore(sql: Sql) {
  return {
    rollUp: () => rollUpStatistics(sql),

    async totals(): Promise<StationTotals> {
      const [row] = await sql<TotalsRow[]>`
        with day as (select date_trunc('minute', now()) - interval '24 hours' as since)
        select day.since,
               (select count(*) from agents)::int as agents,
               (select count(distinct owner) from usage_daily
                 where last_at > now() - interval '24 hours' and owner like '________-____-%')::int
                 as active_agents,
               u.calls, c.volume_micros as volume, m.calls as day_calls, m.failed as day_failed, m.volume as day_volume,
               (select count(*) from hive_entries where is_public)::int as hive_entries,
               b.open as open_bounties, b.rewards as open_rewards
          from day, statistics_cursor c,
               lateral (select coalesce(sum(calls), 0)::bigint as calls from usage_daily) u,
               lateral (select coalesce(sum(calls), 0)::bigint as calls,
                               coalesce(sum(failed), 0)::bigint as failed,
                               coalesce(sum(volume_micros), 0)::bigint as volume
                          from statistics_minutes where minute >= day.since) m,
               lateral (select count(*)::int as open, coalesce(sum(reward_micros), 0)::bigint as rewards
                          from bounties where status = 'open') b`
      if (row === undefined) throw new Error('no totals')
      return toStationTotals(row)
    },

    /** Agents that may be named and have a score, highest first. */
    async leaderboard(limit: number): Promise<ScoredAgent[]> {
      const rows = await sql<ScoreRow[]>`
        select ${scoreColumns(sql)}
          from agent_scores s join agents a on a.agent_id = s.agent_id::uuid
         where ${isPublicAgentSql(sql)} and s.cash_micros > 0
         order by s.cash_micros desc, s.agent_id limit ${limit}`
      return rows.map(toScoredAgent)
    },

    /** An agent that may be named; null for an unknown or private one. */
    async findAgent(agentId: string): Promise<ScoredAgent | null> {
      const [row] = await sql<ScoreRow[]>`
        select ${scoreColumns(sql)}
          from agents a left join agent_scores s on s.agent_id = a.agent_id::text
         where ${isPublicAgentSql(sql)} and a.agent_id = ${agentId}`
      return row === undefined ? null : toScoredAgent(row)
    },
  }
}
export type PublicStatisticsStore = ReturnType<typeof createPublicStatisticsStore>

interface TotalsRow {
  since: Date
  agents: number
  active_agents: number
  calls: bigint
  volume: bigint
  day_calls: bigint
  day_failed: bigint
  day_volume: bigint
  hive_entries: number
  open_bounties: number
  open_rewards: bigint
}

const toStationTotals = (row: TotalsRow): StationTotals => ({
  agents: row.agents,
  activeAgents: row.active_agents,
  calls: Number(row.calls),
  volume: asMicros(row.volume),
  lastDay: {
    since: row.since,
    calls: Number(row.day_calls - row.day_failed),
    failed: Number(row.day_failed),
    volume: asMicros(row.day_volume),
  },
  hiveEntries: row.hive_entries,
  openBounties: row.open_bounties,
  openBountyRewards: asMicros(row.open_rewards),
})

const scoreColumns = (sql: Sql) => sql`
  a.agent_id, a.name, a.framework, a.created_at, coalesce(s.cash_micros, 0)::bigint as score,
  (select coalesce(sum(public_ok), 0)::bigint from usage_daily where owner = a.agent_id::text) as calls`

interface ScoreRow {
  agent_id: string
  name: string
  framework: string | null
  created_at: Date
  score: bigint
  calls: bigint
}

const toScoredAgent = (row: ScoreRow): ScoredAgent => ({
  agentId: row.agent_id,
  name: row.name,
  framework: row.framework,
  createdAt: row.created_at,
  score: asMicros(row.score),
  calls: Number(row.calls),
})
