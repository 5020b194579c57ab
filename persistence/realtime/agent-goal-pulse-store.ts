import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import { publicAgentIdsSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** What an agent currently looks for; at most one per agent. */
export interface AgentGoalPulse {
  readonly agentId: string
  readonly goalVector: string
  readonly confidence: number
  readonly idleCycles: number
  readonly at: Date
  readonly expiresAt: Date
}

/** A pulse, and whether public places name its agent. */
export type AgentGoalPulseWithVisibility = AgentGoalPulse & { readonly isPublic: boolean }

/** The bus topic of new pulses; messages contain agent ids, separated by commas. */
export const AGENT_GOAL_PULSE_TOPIC = 'pulses'

/** Stores the pulses of all agents until they expire. */
export function createAgentGoalPulseStore(sql: Sql) {
  return {
    /** Replaces the agent's earlier pulse. */
    async put(tx: DatabaseTransaction, pulse: AgentGoalPulse): Promise<void> {
      await tx`
        insert into pulses (agent_id, goal_vector, confidence, idle_cycles, at, expires_at)
        values (${pulse.agentId}, ${pulse.goalVector}, ${pulse.confidence}, ${pulse.idleCycles},
                ${pulse.at}, ${pulse.expiresAt})
        on conflict (agent_id) do update set goal_vector = excluded.goal_vector,
          confidence = excluded.confidence, idle_cycles = excluded.idle_cycles, at = excluded.at,
          expires_at = excluded.expires_at`
    },

    async of(agentId: string, now: Date): Promise<AgentGoalPulse | null> {
      const [row] = await sql<PulseRow[]>`
        select * from pulses where agent_id = ${agentId} and expires_at > ${now}`
      return row === undefined ? null : fromRow(row)
    },

    async ofAll(agentIds: readonly string[], now: Date): Promise<AgentGoalPulse[]> {
      const rows = await sql<PulseRow[]>`
        select * from pulses where agent_id = any(${[...agentIds]}::text[]::uuid[])
           and expires_at > ${now} order by at`
      return rows.map(fromRow)
    },

    /** Newest first; `before` is `positionOf` of the last pulse of the previous page. */
    async live(
      now: Date,
      limit: number,
      before: string | null,
    ): Promise<AgentGoalPulseWithVisibility[]> {
      const [ms = null, agentId = null] = before?.split(' ') ?? []
      const at = ms === null ? null : new Date(Number(ms))
      const rows = await sql<(PulseRow & { public_agents: string[] })[]>`
        select *, ${publicAgentIdsSql(sql, sql`pulses.agent_id`)} as public_agents
          from pulses where expires_at > ${now}
           and (${at}::timestamptz is null or (at, agent_id) < (${at}::timestamptz, ${agentId}::uuid))
         order by at desc, agent_id desc limit ${limit}`
      return rows.map((row) => ({ ...fromRow(row), isPublic: row.public_agents.length > 0 }))
    },

    positionOf: ({ at, agentId }: AgentGoalPulse): string => `${at.getTime()} ${agentId}`,

    /** Deletes expired pulses; returns their number. */
    async sweep(now: Date): Promise<number> {
      const { count } = await sql`delete from pulses where expires_at <= ${now}`
      return count
    },
  }
}
export type AgentGoalPulseStore = ReturnType<typeof createAgentGoalPulseStore>

interface PulseRow {
  agent_id: string
  goal_vector: string
  confidence: number
  idle_cycles: number
  at: Date
  expires_at: Date
}

const fromRow = (row: PulseRow): AgentGoalPulse => ({
  agentId: row.agent_id,
  goalVector: row.goal_vector,
  confidence: row.confidence,
  idleCycles: row.idle_cycles,
  at: row.at,
  expiresAt: row.expires_at,
})
