import type { AgentTrackRecord } from '../agents/reputation-store.ts'
import { publicHiveAuthorIdSql } from '../agents/public-agent-sql.ts'
import { asMicros } from '../../core/money.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** A public entry on a topic. */
export interface HiveEvidenceEntry {
  readonly id: string
  readonly content: string
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  /** The author's id where public places name it. */
  readonly author: string | null
  readonly at: Date
}

/** How many of the newest matches are ranked. */
const MAX_RANKED_MATCHES = 1_000
/** Above this many matches, only the newest entries are searched. */
const COMMON_QUERY_MATCHES = 3_000
const MAX_NEWEST_ENTRIES = 20_000

/** Reads public entries as evidence, and the track records of their authors. */
export function createHiveEvidenceReader(sql: Sql) {
  return {
    /**
     * Entries with any of the words, best matches first: an entry that denies a thesis rarely has
     * all of its words. If very many match, only the newest entries are searched.
     */
    async about(
      text: string,
      namespace: string | null,
      limit: number,
    ): Promise<HiveEvidenceEntry[]> {
      const query = sql`
        replace(plainto_tsquery('english', search_question(${text}))::text, ' & ', ' | ')::tsquery`
      const here = sql`(${namespace}::text is null or namespace = ${namespace})`
      const [probe] = await sql<{ matches: number }[]>`
        select count(*)::int as matches from (
          select from hive_entries where is_public and content_search @@ ${query} and ${here}
           limit ${COMMON_QUERY_MATCHES + 1}) probed`
      const among =
        (probe?.matches ?? 0) > COMMON_QUERY_MATCHES
          ? sql`(select * from hive_entries where is_public and ${here}
                  order by at desc limit ${MAX_NEWEST_ENTRIES})`
          : sql`hive_entries`
      const rows = await sql<EvidenceRow[]>`
        with asked as (select ${query} as query),
        found as (
          select e.*, asked.query from ${among} e, asked
           where e.is_public and e.content_search @@ asked.query and ${here}
           order by e.at desc limit ${MAX_RANKED_MATCHES})
        select id, content, confidence, namespace, agent_id, ${publicHiveAuthorIdSql(sql)} as author, at from found e
         order by ts_rank_cd(content_search, query, 32) desc, at desc, id limit ${limit}`
      return rows.map(({ agent_id: agentId, ...row }) => ({ ...row, agentId }))
    },

    /** Track records of several agents; missing agents are left out. */
    async standingsOf(agentIds: readonly string[]): Promise<Map<string, AgentTrackRecord>> {
      const rows = await sql<TrackRecordRow[]>`
        select a.agent_id, a.created_at,
               coalesce(sum(u.public_calls), 0)::int as calls,
               coalesce(sum(u.public_ok), 0)::int as succeeded,
               (select count(*)::int from hive_entries e
                 where e.agent_id = a.agent_id and e.is_public) as entries
          from agents a left join usage_daily u on u.owner = a.agent_id::text
         where a.agent_id = any(${[...agentIds]}::uuid[])
         group by a.agent_id, a.created_at`
      return new Map(rows.map((row) => [row.agent_id, toTrackRecord(row)]))
    },
  }
}
export type HiveEvidenceStore = ReturnType<typeof createHiveEvidenceReader>

interface EvidenceRow {
  id: string
  content: string
  confidence: number
  namespace: string
  agent_id: string
  author: string | null
  at: Date
}
interface TrackRecordRow {
  agent_id: string
  created_at: Date
  calls: number
  succeeded: number
  entries: number
}

/** Excludes tips and reads: credibility must not be for sale. */
const toTrackRecord = (row: TrackRecordRow): AgentTrackRecord => ({
  createdAt: row.created_at,
  calls: row.calls,
  succeeded: row.succeeded,
  tipsReceived: asMicros(0n),
  hiveEntries: row.entries,
  hiveReads: 0,
})
