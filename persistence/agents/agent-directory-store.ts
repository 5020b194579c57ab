import type { Sql } from '../start-postgres-and-redis.ts'
import { isPublicAgentSql } from './public-agent-sql.ts'

/** The public directory of agents whose owners allow it. */

export interface ListedAgent {
  readonly agentId: string
  readonly name: string
  readonly description: string | null
  readonly framework: string | null
  readonly toolCategory: string | null
  readonly createdAt: Date
  /** Cash paid to the station for public calls, in micro-USDC. */
  readonly score: bigint
  /** Successful public calls. */
  readonly calls: number
}

export interface AgentDirectoryQuery {
  /** Words that the name or the description contains. */
  readonly q: string | null
  readonly framework: string | null
  readonly toolCategory: string | null
}

/** Greater than all ids: the first page starts before it. */
const MAX_AGENT_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Reads the directory. */
export function createAgentDirectoryStore(sql: Sql) {
  return {
    /** Newest first; `before` is the id of the last one seen. */
    async list(
      { q, framework, toolCategory }: AgentDirectoryQuery,
      limit: number,
      before: string | null,
    ): Promise<ListedAgent[]> {
      const words = (q ?? '').split(/\s+/).filter((word) => word !== '')
      const rows = await sql<DirectoryRow[]>`
        select a.agent_id, a.name, a.description, a.framework, a.tool_category, a.created_at,
               coalesce(s.cash_micros, 0)::bigint as score,
               (select coalesce(sum(public_ok), 0)::bigint from usage_daily
                 where owner = a.agent_id::text) as calls
          from agents a left join agent_scores s on s.agent_id = a.agent_id::text
         where ${isPublicAgentSql(sql)} and a.agent_id < ${before ?? MAX_AGENT_ID}
           and (${framework}::text is null or a.framework = ${framework})
           and (${toolCategory}::text is null or a.tool_category = ${toolCategory})
           and not exists (select from unnest(${words}::text[]) w
                            where position(lower(fold_text(w)) in lower(fold_text(a.name || ' ' || coalesce(a.description, '')))) = 0)
         order by a.agent_id desc limit ${limit}`
      return rows.map(fromRow)
    },
  }
}
export type AgentDirectoryStore = ReturnType<typeof createAgentDirectoryStore>

interface DirectoryRow {
  agent_id: string
  name: string
  description: string | null
  framework: string | null
  tool_category: string | null
  created_at: Date
  score: bigint
  calls: bigint
}

const fromRow = (row: DirectoryRow): ListedAgent => ({
  agentId: row.agent_id,
  name: row.name,
  description: row.description,
  framework: row.framework,
  toolCategory: row.tool_category,
  createdAt: row.created_at,
  score: row.score,
  calls: Number(row.calls),
})
