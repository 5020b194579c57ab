import type { Micros } from '../../core/money.ts'
import { asMicros } from '../../core/money.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Public figures of an agent from the ledger; private calls and entries are excluded. */
export interface AgentTrackRecord {
  readonly createdAt: Date
  readonly calls: number
  readonly succeeded: number
  readonly tipsReceived: Micros
  readonly hiveEntries: number
  /** Reads of its entries by other agents, one per reader, entry and day. */
  readonly hiveReads: number
}

export function createReputationStore(sql: Sql) {
  return {
    /** Null if the agent does not exist. */
    async standingOf(agentId: string): Promise<AgentTrackRecord | null> {
      const id = agentId.toLowerCase()
      const accounts = [`agent:${id}:promo`, `agent:${id}:cash`]
      const [row] = await sql<TrackRecordRow[]>`
        select a.created_at, c.calls, c.succeeded,
          (select coalesce(sum(amount_micros), 0)::bigint from ledger
            where credit = any(${accounts}) and kind = 'tip'
              and credit like 'agent:%' and split_part(credit, ':', 2) <> owner) as tips,
          (select count(*)::int from hive_entries
            where agent_id = a.agent_id and is_public) as entries,
          (select count(distinct (r.entry_id, r.reader, r.day))::int
             from hive_entries e join hive_reads r on r.entry_id = e.id
            where e.agent_id = a.agent_id and e.is_public and r.has_key) as reads
          from agents a, lateral (
            select coalesce(sum(public_calls), 0)::int as calls,
                   coalesce(sum(public_ok), 0)::int as succeeded
              from usage_daily where owner = ${id}) c
         where a.agent_id = ${id}`
      return row === undefined ? null : fromRow(row)
    },
  }
}
export type ReputationStore = ReturnType<typeof createReputationStore>

interface TrackRecordRow {
  created_at: Date
  calls: number
  succeeded: number
  tips: bigint
  entries: number
  reads: number
}

const fromRow = (row: TrackRecordRow): AgentTrackRecord => ({
  createdAt: row.created_at,
  calls: row.calls,
  succeeded: row.succeeded,
  tipsReceived: asMicros(row.tips),
  hiveEntries: row.entries,
  hiveReads: row.reads,
})
