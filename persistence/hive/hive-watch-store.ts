import { publicHiveAuthorIdSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Standing searches of agents over new Hive entries. */

export interface HiveWatchRecord {
  readonly watchId: string
  readonly keyword: string
  readonly namespace: string | null
  readonly createdAt: Date
  readonly matches: number
}

export interface HiveWatchMatch {
  /** Ids become visible in order, so they are gapless cursors. */
  readonly id: bigint
  readonly watchId: string
  readonly matchedAt: Date
  readonly entryId: string
  readonly content: string
  readonly confidence: number
  readonly namespace: string
  /** The author's id where public places name it. */
  readonly author: string | null
  readonly at: Date
  readonly readToday: boolean
}

export interface ReadHiveWatchMatchesInput {
  readonly agentId: string
  readonly watchId: string | null
  readonly after: bigint
  readonly limit: number
  /** The UTC day as `2026-11-21`. */
  readonly day: string
}

/** How many matches of a watch are counted. */
const MAX_COUNTED_MATCHES = 1_000

/** Reads watches and their matches. Calls stage the rows; triggers match them. */
export function createHiveWatchStore(sql: Sql) {
  return {
    async isWatchable(keyword: string): Promise<boolean> {
      const [row] = await sql<{ found: boolean }[]>`
        select hive_anchor(${keyword}) is not null as found`
      return row?.found ?? false
    },

    /** Whether the watch belongs to the agent and has not ended. */
    async has(agentId: string, watchId: string): Promise<boolean> {
      const rows = await sql`
        select from hive_watches
         where watch_id = ${watchId} and agent_id = ${agentId} and ended_at is null`
      return rows.count > 0
    },

    /** Active watches, oldest first, with the number of matches of each. */
    async of(agentId: string): Promise<HiveWatchRecord[]> {
      return sql<HiveWatchRecord[]>`
        select w.watch_id as "watchId", w.keyword, w.namespace, w.created_at as "createdAt",
               (select count(*)::int from (
                  select from hive_matches m
                   where m.query_id = w.query_id and m.id > w.after_id and m.author <> w.agent_id
                     and (m.written is null or m.written >= w.created_at)
                   limit ${MAX_COUNTED_MATCHES}) counted) as matches
          from hive_watches w where w.agent_id = ${agentId} and w.ended_at is null
         order by w.watch_id`
    },

    /** New entries of others that the agent's watches matched, oldest first; each once. */
    async matches({
      agentId,
      watchId,
      after,
      limit,
      day,
    }: ReadHiveWatchMatchesInput): Promise<HiveWatchMatch[]> {
      return sql<HiveWatchMatch[]>`
        with found as (
          select distinct on (m.id) m.id, m.at, m.entry_id, w.watch_id
            from hive_watches w cross join lateral (
              select m.* from hive_matches m join hive_entries e on e.id = m.entry_id and e.is_public
               where m.query_id = w.query_id and m.id > greatest(w.after_id, ${after}::bigint)
                 and m.author <> w.agent_id and (m.written is null or m.written >= w.created_at)
               order by m.id limit ${limit}) m
           where w.agent_id = ${agentId} and w.ended_at is null
             and (${watchId}::uuid is null or w.watch_id = ${watchId}::uuid)
           order by m.id, w.watch_id limit ${limit})
        select f.id, f.watch_id as "watchId", f.at as "matchedAt", e.id as "entryId", e.content,
               e.confidence, e.namespace, ${publicHiveAuthorIdSql(sql)} as author, e.at,
               exists (select from hive_reads r where r.entry_id = e.id and r.reader = ${agentId}
                          and r.day = ${day}::date) as "readToday"
          from found f join hive_entries e on e.id = f.entry_id order by f.id`
    },

    /** Continues an entry whose commit could not match all watches; false if none is left. */
    async matchMore(): Promise<boolean> {
      const [row] = await sql<{ more: boolean }[]>`select match_next_hive_entry() as more`
      return row?.more ?? false
    },
  }
}
export type HiveWatchStore = ReturnType<typeof createHiveWatchStore>
