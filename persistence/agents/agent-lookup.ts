import type { Sql } from '../start-postgres-and-redis.ts'

/** Looks up which agents exist and which are active. */
export function createAgentExistenceAndActivityLookup(sql: Sql) {
  return {
    /** Whether the agent exists; agents are never removed. */
    async has(agentId: string): Promise<boolean> {
      const [row] = await sql`select from agents where agent_id = ${agentId}`
      return row !== undefined
    },

    /** Agents with a call since `at` (milliseconds), most recent first, without `except`. */
    async activeSince(at: number, limit: number, except: string | null): Promise<string[]> {
      // An agent's id is a uuid; visitors are counted too and have longer ids.
      const rows = await sql<{ owner: string }[]>`
        select owner from usage_daily
         where last_at >= ${new Date(at)} and length(owner) = 36
           and owner is distinct from ${except}
         group by owner order by max(last_at) desc, owner limit ${limit}`
      return rows.map((row) => row.owner)
    },
  }
}
