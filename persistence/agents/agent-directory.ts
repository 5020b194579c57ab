import type { Sql } from '../data-plane.ts'

/** Who exists and who is about. */
export function createAgentDirectory(sql: Sql) {
  return {
    /** Whether there is such an agent; agents are never removed. */
    async has(agentId: string): Promise<boolean> {
      const [row] = await sql`select from agents where agent_id = ${agentId}`
      return row !== undefined
    },

    /** Agents with a call since `at` (milliseconds), the most recent first, without `except`. */
    async activeSince(at: number, limit: number, except: string | null): Promise<string[]> {
      // An agent's id is a uuid; visitors, who are counted too, have longer names.
      const rows = await sql<{ owner: string }[]>`
        select owner from usage_daily
         where last_at >= ${new Date(at)} and length(owner) = 36
           and owner is distinct from ${except}
         group by owner order by max(last_at) desc, owner limit ${limit}`
      return rows.map((row) => row.owner)
    },
  }
}
