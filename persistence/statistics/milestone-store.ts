import { AGENT_TIERS } from '../../domain/leaderboard-tiers.ts'
import type { AgentMilestone } from '../../domain/agent-milestones.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import { isPublicAgentSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** What public agents have reached, posted once each. */

/** A milestone of an agent that may be named. */
export interface PostedMilestone {
  readonly agentId: string
  readonly name: string
  readonly milestone: AgentMilestone
  readonly postedAt: Date
}

const TIERS = AGENT_TIERS.filter(({ from }) => from > 0n)
/** The call that has a post of its own; agents that have it are not counted again. */
const POSTED_CALL = 100

/**
 * Posts what these agents have reached, in the transaction that adds their rows to the sums: an agent is asked
 * about after each of its public calls, and the key of the table lets each post exist once. Of several tiers
 * at once only the highest is posted. Private agents have none.
 */
export async function insertReachedMilestones(
  tx: DatabaseTransaction,
  agentIds: readonly string[],
): Promise<void> {
  if (agentIds.length === 0) return
  const names = TIERS.map(({ tier }) => `tier_${tier}`)
  const starts = TIERS.map(({ from }) => String(from))
  await tx`
    with asked as (
      select a.agent_id from unnest(${toTextArrayLiteral(agentIds)}::uuid[]) x(id)
        join agents a on a.agent_id = x.id and ${isPublicAgentSql(tx)}),
    counted as (
      select k.agent_id, (select coalesce(sum(public_ok), 0) from usage_daily
                           where owner = k.agent_id::text) as calls
        from asked k where not exists (select from milestones m
                                        where m.agent_id = k.agent_id and m.milestone = 'calls_100')),
    reached as (
      select agent_id, 'first_call' as milestone from counted where calls >= 1
      union all
      select agent_id, 'calls_100' from counted where calls >= ${POSTED_CALL}
      union all
      select k.agent_id, t.name from asked k
        join agent_scores s on s.agent_id = k.agent_id::text
       cross join lateral (
         select name from unnest(${names}::text[], ${starts}::bigint[]) x(name, start)
          where s.cash_micros >= start order by start desc limit 1) t)
    insert into milestones (agent_id, milestone, posted_at)
      select agent_id, milestone, now() from reached
    on conflict do nothing`
}

/** Reads the posts. */
export const createMilestoneStore = (sql: Sql) => ({
  /**
   * Of agents that may be named now, newest first. Those of agents that have paid nothing with money from outside
   * get `unpaidLimit` places, so that a crowd of them displaces no other (decision 302).
   */
  async latest(limit: number, unpaidLimit: number): Promise<PostedMilestone[]> {
    const newest = (hasPaid: boolean, most: number) => sql`
      select m.agent_id, a.name, m.milestone, m.posted_at
        from milestones m join agents a using (agent_id)
       where ${isPublicAgentSql(sql)}
         and exists (select from agent_scores s where s.agent_id = a.agent_id::text) = ${hasPaid}
       order by m.posted_at desc, m.agent_id, m.milestone limit ${most}`
    const rows = await sql<MilestoneRow[]>`
      (${newest(true, limit)}) union all (${newest(false, unpaidLimit)})
       order by posted_at desc, agent_id, milestone limit ${limit}`
    return rows.map((row) => ({
      agentId: row.agent_id,
      name: row.name,
      milestone: row.milestone,
      postedAt: row.posted_at,
    }))
  },
})
export type MilestoneStore = ReturnType<typeof createMilestoneStore>

interface MilestoneRow {
  agent_id: string
  name: string
  milestone: AgentMilestone
  posted_at: Date
}
