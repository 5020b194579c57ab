import { asMicros, type Micros } from '../../core/money.ts'
import { isPublicAgentSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Published strategies and their forks. */

export interface StrategyRecord {
  readonly id: string
  readonly agentId: string
  /** Whether public places name its author with it. */
  readonly isAuthorPublic: boolean
  readonly agentName: string | null
  readonly title: string
  readonly description: string
  readonly tool: string | null
  readonly chain: string | null
  readonly params: Record<string, unknown>
  readonly txHash: string | null
  readonly txVerified: boolean
  readonly isPublic: boolean
  readonly forkedFrom: string | null
  readonly createdAt: Date
  readonly forks: number
  readonly royalties: Micros
}

/** Reads strategies. Calls stage the rows. */
export function createStrategyStore(sql: Sql) {
  return {
    async find(id: string): Promise<StrategyRecord | null> {
      const [row] = await sql<StrategyRow[]>`${selectStrategies(sql)} where s.id = ${id}`
      return row === undefined ? null : fromRow(row)
    },

    /** Public ones, newest first; `before` is the last id of the previous page. */
    async list(limit: number, before: string | null): Promise<StrategyRecord[]> {
      const rows = await sql<StrategyRow[]>`
        ${selectStrategies(sql)} where s.is_public and (${before}::uuid is null or s.id < ${before}::uuid)
         order by s.id desc limit ${limit}`
      return rows.map(fromRow)
    },
  }
}
export type StrategyStore = ReturnType<typeof createStrategyStore>

const selectStrategies = (sql: Sql) => sql`
  select s.*, coalesce(not s.ghost and ${isPublicAgentSql(sql)}, false) as is_author_public, a.name as agent_name, f.forks, f.royalties
    from strategies s left join agents a on a.agent_id = s.agent_id
    cross join lateral (
      select count(*)::int as forks, coalesce(sum(royalty_micros), 0)::bigint as royalties
        from strategy_forks where strategy_id = s.id) f`

interface StrategyRow {
  id: string
  agent_id: string
  is_author_public: boolean
  agent_name: string | null
  title: string
  description: string
  tool: string | null
  chain: string | null
  params: Record<string, unknown>
  tx_hash: string | null
  tx_verified: boolean
  is_public: boolean
  forked_from: string | null
  created_at: Date
  forks: number
  royalties: bigint
}

const fromRow = (row: StrategyRow): StrategyRecord => ({
  id: row.id,
  agentId: row.agent_id,
  isAuthorPublic: row.is_author_public,
  agentName: row.agent_name,
  title: row.title,
  description: row.description,
  tool: row.tool,
  chain: row.chain,
  params: row.params,
  txHash: row.tx_hash,
  txVerified: row.tx_verified,
  isPublic: row.is_public,
  forkedFrom: row.forked_from,
  createdAt: row.created_at,
  forks: row.forks,
  royalties: asMicros(row.royalties),
})
