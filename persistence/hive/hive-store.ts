import type postgres from 'postgres'
import { createHiveFullTextSearch } from './hive-full-text-search.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { rollUpStatistics } from '../statistics/roll-up-statistics.ts'

/** The number of events of one name, `daysAgo` periods of 24 hours before an instant. */
export interface DailyActivityCount {
  readonly name: string
  readonly daysAgo: number
  readonly count: number
}

/** Reads the Hive; commits write it. */
export function createHiveStore(sql: Sql) {
  return {
    ...createHiveFullTextSearch(sql),

    /**
     * Public reads, public writes and calls by name and day, over the eight days before `at`, and who of them has
     * paid with money from outside: once a name and day each. Calls count by the hour in which they began.
     */
    async activity(at: Date) {
      await rollUpStatistics(sql)
      const since = new Date(at.getTime() - 8 * 86_400_000)
      const [reads, writes, calls, toolPayers, hivePayers] = await Promise.all([
        sql<CountRow[]>`
          select e.namespace as name, ${daysAgo(sql, at, sql`r.at`)} as days_ago, count(*)::int
            from hive_reads r join hive_entries e on e.id = r.entry_id
           where r.at > ${since} and r.at <= ${at} and not r.ghost and e.is_public group by 1, 2`,
        sql<CountRow[]>`
          select namespace as name, ${daysAgo(sql, at, sql`at`)} as days_ago, count(*)::int
            from hive_entries
           where at > ${since} and at <= ${at} and is_public group by 1, 2`,
        sql<CountRow[]>`
          select tool as name, ${daysAgo(sql, at, sql`hour`)} as days_ago, sum(ok)::int as count
            from tool_hours where hour > ${since} and hour <= ${at} and ok > 0 group by 1, 2`,
        sql<CountRow[]>`
          select tool as name, ${daysAgo(sql, at, sql`hour`)} as days_ago,
                 count(distinct payer)::int as count
            from tool_payers where hour > ${since} and hour <= ${at} group by 1, 2`,
        sql<CountRow[]>`
          select name, ${daysAgo(sql, at, sql`at`)} as days_ago, count(distinct agent)::int as count
            from (select e.namespace as name, r.at, r.reader as agent
                    from hive_reads r join hive_entries e on e.id = r.entry_id
                   where r.at > ${since} and r.at <= ${at} and not r.ghost and e.is_public
                  union all
                  select namespace, at, agent_id::text from hive_entries
                   where at > ${since} and at <= ${at} and is_public) x
            join agent_scores s on s.agent_id = x.agent
           group by 1, 2`,
      ])
      const fromRows = (rows: readonly CountRow[]): DailyActivityCount[] =>
        rows.map((row) => ({ name: row.name, daysAgo: row.days_ago, count: row.count }))
      return {
        reads: fromRows(reads),
        writes: fromRows(writes),
        calls: fromRows(calls),
        toolPayers: fromRows(toolPayers),
        hivePayers: fromRows(hivePayers),
      }
    },
  }
}
export type HiveStore = ReturnType<typeof createHiveStore>

type Fragment = postgres.PendingQuery<postgres.Row[]>

const daysAgo = (sql: Sql, at: Date, column: Fragment) =>
  sql`floor(extract(epoch from ${at}::timestamptz - ${column}) / 86400)::int`

interface CountRow {
  name: string
  days_ago: number
  count: number
}
